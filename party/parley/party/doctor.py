"""What `parley doctor` looks at in a party: its records, their seal, and whether its books tell one story."""

import os
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec

from parley.compute.cluster import Cluster
from parley.compute.errors import ComputeError
from parley.compute.strangers import refuse_open
from parley.federation.admission import BY_HAND
from parley.federation.claimed import reasons_even_if_true
from parley.federation.errors import ApprovalError
from parley.federation.extras import pip
from parley.federation.manifest import Manifest, of_an_earlier_version
from parley.federation.meaning import verify_apart
from parley.federation.names import NodeName
from parley.federation.policy import PartyPolicy, Policy, Reason, reasons_against
from parley.learning.errors import PartyError
from parley.learning.fit import fit
from parley.learning.holding import read_holding
from parley.learning.spreads import warnings_of
from parley.node.data_sets import DataSet
from parley.node.doctor import FAILED, OK, UNKNOWN, WARNING, Finding, edited, guarded
from parley.node.node_file import NODE_FILE, PartyNode
from parley.party.books import epsilon_spent, require_populations, spent_if_a_server_lies
from parley.party.data import data_set_of, require_equal, understand
from parley.party.exclusions import excluded_of
from parley.party.memory import require_agreement, require_ledger
from parley.party.outbox import ENDED, OVER, REFUSED, VERIFYING, WAITING, Outbox
from parley.party.process import settings_of
from parley.party.review import in_force, policy_seen, proposal, require_recorded
from parley.party.seal import taken, verified
from parley.party.settings import Settings
from parley.party.snapshot import age, digest_of_query
from parley.party.standing import admissions_of, holds
from parley.privacy.errors import LedgerRefusedError
from parley.privacy.ledger import Ledger


def examine_party(node: PartyNode) -> Iterator[Finding]:
    """Beside what every node's doctor looks at."""
    settings = settings_of(node)
    for data in node.data:
        yield from _data_set(node, settings, data)
    if settings.review.exists():
        yield guarded(
            "review", lambda: _review(node, settings), f"`parley party policy {node.folder}` says what is in force"
        )
    if settings.compute is not None:
        cluster = settings.compute
        yield guarded("compute", lambda: _compute(cluster, node), _compute_fix(node))
    used = {path for data in node.data for path in data.files}
    for path in sorted(set(node.state.glob("snapshot*.jsonl")) - used):
        text = "has rows of a database, and no data set of node.toml is theirs"
        yield Finding(f"data {path.name}", WARNING, text, f"remove {path}, unless you take its data set up again")
    if len(settings.populations) > 1:
        yield guarded("populations", lambda: _populations(node, settings), _populations_fix(node))
    if not node.ledger.exists():
        yield guarded("memory", lambda: _nothing_spent(settings), memory_fix(node))
    elif settings.outbox.exists():
        yield guarded("memory", lambda: _memory(node, settings), memory_fix(node))


def proposed_and_over(node: PartyNode) -> tuple[list[Manifest], set[bytes]]:
    """Runs that wait here for a person, and digests of those that are over."""
    settings = settings_of(node)
    if not settings.outbox.exists():
        return [], set()
    with closing(Outbox(settings.outbox)) as outbox:
        runs = [held for held in outbox.runs() if not of_an_earlier_version(held.manifest)]
    waiting = [Manifest.from_canonical(held.manifest) for held in runs if held.state in (VERIFYING, WAITING)]
    return waiting, {held.digest for held in runs if held.state in (ENDED, REFUSED, *OVER)}


def judged(node: PartyNode, manifest: Manifest, name: NodeName, policy: Policy | None) -> tuple[Reason, ...]:
    """What the policy holds against a run, with what this party's ledger has spent."""
    data = data_set_of(settings_of(node), manifest, name)
    spent: float = 0.0
    lying: float | None = 0.0
    if node.ledger.exists():
        with closing(Ledger.open(node.ledger)) as ledger:
            spent, lying = epsilon_spent(ledger, data.population), spent_if_a_server_lies(ledger, data.population)
    limited = isinstance(policy, PartyPolicy) and (
        policy.epsilon_if_a_server_lies_per_run is not None or policy.epsilon_if_a_server_lies_total is not None
    )
    if limited and manifest.guarantee.epsilon_if_a_server_lies is None:  # what a lie may cost has to be computed
        return reasons_against(verify_apart(manifest), name, policy, spent, lying)
    return reasons_even_if_true(manifest, name, policy, spent, lying)


def lapsed(check: str, node: PartyNode, manifest: Manifest) -> Finding | None:
    """Of a run that people have admitted and whose signatures do not hold, before it is charged; else nothing."""
    settings = settings_of(node)
    by = admissions_of(settings).get(manifest.run) if settings.review.exists() else None
    if (
        by is None
        or by.how != BY_HAND
        or by.withdrawn
        or by.digest != manifest.digest.hex()
        or holds(settings, manifest)
    ):
        return None
    if node.ledger.exists():
        with closing(Ledger.open(node.ledger)) as ledger:
            if manifest.run in ledger.runs:
                return None
    text = f"{by.by} admitted it on {by.at}, and too few of the signatures count any more"
    return Finding(check, FAILED, text, f"`parley party status {node.folder}` says why; sign once more")


def columns_of_run(check: str, node: PartyNode, name: NodeName | None, manifest: Manifest) -> Finding:
    """Whether a run's columns are this party's, by schema.toml. Reads no record."""
    understood = understand(manifest)
    if name is None:
        return Finding(check, OK, "this installation knows its model and schema")
    data = data_set_of(settings_of(node), manifest, name)
    require_equal(read_holding(data.schema), manifest, understood, name)
    return Finding(check, OK, f"its columns and its count of units are those of {data.schema.name}")


def _data_set(node: PartyNode, settings: Settings, data: DataSet) -> Iterator[Finding]:
    of = f" {data.name}" if data.name else ""
    compare = f"`parley schema check {node.folder}` says what does not fit"
    sealed = guarded(f"seal{of}", lambda: _seal(f"seal{of}", node, settings, data), compare)
    yield sealed
    if sealed.state != FAILED:
        yield guarded(f"bounds{of}", lambda: _bounds(f"bounds{of}", settings, data), compare)
    if data.excluded is not None:
        yield guarded(
            f"excluded{of}",
            lambda: _excluded(f"excluded{of}", node, settings, data),
            f"`parley party exclude {node.folder}`",
        )
    if data.query is not None:
        yield guarded(f"database{of}", lambda: _database(f"database{of}", node, settings, data), compare)
        return
    for path in data.files:
        if not os.access(path, os.R_OK):
            why = "cannot be read" if path.exists() else "is not there"
            yield Finding(
                f"data {path.name}",
                FAILED,
                why,
                f"correct [data] files, {edited(node.folder / NODE_FILE)}, or the file's mode",
            )
        else:
            yield Finding(f"data {path.name}", OK, "can be read")


def _seal(check: str, node: PartyNode, settings: Settings, data: DataSet) -> Finding:
    """Every byte of the files, not a cell of the records."""
    fix = f"`parley schema check {node.folder}`: until then this node waits and joins no run"
    try:
        sealed = verified(settings.seal(data), data)
    except PartyError as error:
        return Finding(check, FAILED, str(error), fix)
    policy = policy_seen(settings)
    if isinstance(policy, PartyPolicy):
        if policy.unit_column != sealed.holding.unit:
            units = [unit or "single rows" for unit in (policy.unit_column, sealed.holding.unit)]
            text = f"policy.toml protects {units[0]} and {data.schema.name} {units[1]}"
            return Finding(check, FAILED, text, f"make them agree, {edited(node.policy)}: no run is admitted otherwise")
        if data.name and data.name not in policy.data_sets:
            text = f"policy.toml admits no run that names the data set {data.name}"
            return Finding(check, WARNING, text, "add it to data_sets, or approve each run by hand")
    return Finding(check, OK, f"the records and {data.schema.name} are unchanged since they were compared")


def _review(node: PartyNode, settings: Settings) -> Finding:
    """Which policy is in force, and whether policy.toml says something else."""
    look = f"`parley party policy {node.folder}`"
    try:
        require_recorded(settings)
    except ApprovalError as error:
        return Finding("review", FAILED, str(error), f"{look} says the same, and nothing is admitted before")
    held, found = in_force(settings), proposal(settings)
    if held is None:
        return Finding("review", OK, "no policy with [review] is in force: policy.toml counts as it stands")
    if found is None:
        return Finding("review", OK, f"policy {held.number} is in force since {held.at}, as policy.toml has it")
    signed = sum(each.counts for each in found.signatures)
    text = f"policy {held.number} is in force; policy.toml says something else, {signed} of {found.needed} have signed"
    return Finding("review", WARNING, f"{text}{f': {found.problem}' if found.problem else ''}", look)


def _excluded(check: str, node: PartyNode, settings: Settings, data: DataSet) -> Finding:
    """What the list means; for this machine's operator, and in nothing that leaves."""
    found = excluded_of(settings, data)
    if found.problem:
        fix = f"correct the list, then `parley party exclude {node.folder}`; until then this node joins no run"
        return Finding(check, FAILED, found.problem, fix)
    if found.missing_count:
        return Finding(
            check, WARNING, found.summary, "compare the list with the records: who is not found is not excluded"
        )
    return Finding(check, OK, found.summary)


def _bounds(check: str, settings: Settings, data: DataSet) -> Finding:
    """Whether the columns' bounds suit the records: read here, for this machine's operator, and noted nowhere."""
    sealed = verified(settings.seal(data), data)
    said = warnings_of(fit(sealed.read(data), sealed.holding).spreads)
    if said:
        fix = f"correct {data.schema.name} with your partners, and check again"
        return Finding(check, WARNING, "; ".join(said), fix)
    return Finding(check, OK, f"those of {data.schema.name} suit the records")


def _database(check: str, node: PartyNode, settings: Settings, data: DataSet) -> Finding:
    """What is told without a word to the database: how old the rows are, and whether the query is still theirs."""
    assert data.query is not None
    again = f"`parley schema check {node.folder}`"
    last = taken(settings.seal(data))
    if last is None:
        return Finding(check, UNKNOWN, "no rows were taken from it yet", again)
    text = f"runs use rows that were taken {age(last)} ago, not the database as it is now"
    if last.query != digest_of_query(data.query):
        return Finding(check, WARNING, f"{text}; the query was changed since", again)
    return Finding(check, OK, text)


def _compute_fix(node: PartyNode) -> str:
    return f"correct [compute], {edited(node.folder / NODE_FILE)}: until then this party is late in every run"


def _compute(cluster: Cluster, node: PartyNode) -> Finding:
    """[compute]: what a run would be late for. Starts no cluster; an operator's own one is asked without its token."""
    fix = _compute_fix(node)
    try:
        cluster.check()
        if find_spec("ray") is None:
            return Finding("compute", FAILED, "[compute] is for Ray, which is not here", f"`{pip('ray')}`")
        if cluster.address is not None:
            certificate, key, authority = cluster.certificate, cluster.key, cluster.authority
            assert certificate is not None
            assert key is not None
            assert authority is not None
            refuse_open(cluster.address, certificate, key, authority)
            return Finding("compute", OK, f"the cluster at {cluster.address} answers over TLS, to its token alone")
    except ComputeError as error:
        return Finding("compute", FAILED, str(error), fix)
    cores = len(os.sched_getaffinity(0))
    if cluster.workers > cores:
        text = f"{cluster.workers} workers share {cores} cores of this machine"
        return Finding("compute", WARNING, text, f"[compute] workers = {cores}: more of them are slower, not faster")
    return Finding("compute", OK, f"each run starts a cluster on this machine, workers = {cluster.workers}")


def _populations_fix(node: PartyNode) -> str:
    return f"see `parley party populations {node.folder}`"


def _populations(node: PartyNode, settings: Settings) -> Finding:
    fix = _populations_fix(node)
    if not node.ledger.exists():
        return Finding("populations", FAILED, "nobody has answered for more than one budget yet", fix)
    with closing(Ledger.open(node.ledger)) as ledger:
        try:
            require_populations(ledger, settings)
        except LedgerRefusedError as error:
            return Finding("populations", FAILED, str(error), fix)
    return Finding("populations", OK, "each has a budget of its own, and somebody answers for it")


def memory_fix(node: PartyNode) -> str:
    return f"put the whole folder state back from the newest backup; `parley audit verify {node.folder}`"


def _nothing_spent(settings: Settings) -> Finding:
    require_ledger(settings)
    return Finding("memory", OK, "nothing was spent here yet")


def _memory(node: PartyNode, settings: Settings) -> Finding:
    """Whether ledger, outbox and trail agree, and which runs stay charged."""
    with closing(Ledger.open(node.ledger)) as ledger, closing(Outbox(settings.outbox)) as outbox:
        require_agreement(ledger, outbox, settings.trail)
        over = {held.run for held in outbox.runs() if held.state in ("ended", "left")}
        still = sorted(
            run.name for run in ledger.runs.values() if run.name in over and not (run.ended or run.accounted)
        )
    if still:
        text = f"{', '.join(still)}: over here, and charged until both aggregators confirm how it ended"
        return Finding("memory", WARNING, text, f"`parley party settle {node.folder}`")
    return Finding("memory", OK, "ledger, outbox and trail agree")
