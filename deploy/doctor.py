"""What `parley doctor` looks at: each check says ok, or what is wrong and what mends it.

`warning` is for what works today; `unknown` for what cannot be told from here. Only `failed` makes a node ill. Details
of a party's records are for its operator's eyes: they are in the report of the machine that holds the records, and the
report is sent nowhere.
"""

import datetime as dt
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parley.federation.admission import AdmissionRecord
from parley.federation.credentials import KEY_FILE, Identity
from parley.federation.errors import FederationError
from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.federation.policy import ROLES, PartyPolicy, Policy, read_policy
from parley.federation.trail import verify as verify_trail

from deploy.clock import clock_error_seconds
from deploy.node_file import Address, AggregatorNode, AnyNode, CoordinatorNode, PartyNode, read_node
from deploy.reachability import Reached, UnreachableError, probe
from deploy.software import software_version, source_digest
from mpc.errors import MpcError
from party.errors import PartyError
from privacy.errors import PrivacyError

OK, WARNING, FAILED, UNKNOWN = "ok", "warning", "failed", "unknown"
RENEW_DAYS = 14
LEAST_FREE_BYTES = 1 << 30
LARGEST_CLOCK_ERROR_SECONDS = 5.0
LEAST_MARGIN_BITS = 1.0


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    check: str
    state: str
    problem: str
    """For an ok, what was found."""
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def examine(folder: Path, manifests: Sequence[Manifest] = ()) -> list[Finding]:
    """Every check of a node. `manifests` are looked at besides those that the node has admitted."""
    found = [_software()]
    try:
        node = read_node(folder)
    except FederationError as error:
        return [*found, Finding("node.toml", FAILED, str(error), "mend the field; docs/federation.md has them all")]
    found.append(Finding("node.toml", OK, f"a {node.role}"))
    identity = _identity(node, found)
    policy = _policy(node, found)
    found += [*_folders(node), *_books(node)]
    reached = _peers(node, policy, found) if identity is not None else {}
    found.append(_clock(reached))
    known = [*_admitted(node, found), *manifests]
    for manifest in {each.digest: each for each in known}.values():
        found += _manifest(node, identity, manifest)
    if not known:
        found.append(
            Finding(
                "manifests", UNKNOWN, "none was admitted yet", "give one that waits: parley doctor NODE --manifest FILE"
            )
        )
    if isinstance(node, PartyNode):
        found += _data_files(node)
    if isinstance(node, PartyNode | CoordinatorNode):
        found.append(_budget(node))
    return found


def _software() -> Finding:
    version = f"parley {software_version()}, source {source_digest()[:16]}, Python {sys.version.split()[0]}"
    missing = [name for name in ("scipy", "dp_accounting") if find_spec(name) is None]
    if missing:
        return Finding(
            "software",
            FAILED,
            f"{version}: {' and '.join(missing)} missing, and no manifest can be verified without",
            "pip install 'parley-federation[accounting]'",
        )
    return Finding("software", OK, version)


def _identity(node: AnyNode, found: list[Finding]) -> Identity | None:
    check = "certificate"
    try:
        identity = Identity.load(node.identity.path / node.identity.stamp())
        name, expires = identity.name, identity.expires
        identity.check()
    except FederationError as error:
        found.append(Finding(check, FAILED, str(error), "`parley node show`, then `parley node request` or `rotate`"))
        return None
    if name.role is not node.role:
        found.append(
            Finding(
                check, FAILED, f"is for {name}, and node.toml is a {node.role}'s", "correct role, or request another"
            )
        )
        return None
    days = (expires - dt.datetime.now(dt.UTC)) / dt.timedelta(days=1)
    text = f"{name}, {days:.0f} days left"
    found.append(
        Finding(check, WARNING, text, "`parley node rotate`, and have it approved") if days < RENEW_DAYS
        else Finding(check, OK, text)
    )  # fmt: skip
    mode = stat.S_IMODE((node.identity.current / KEY_FILE).stat().st_mode)
    found.append(Finding("key", OK, f"mode {mode:o}, readable by its owner alone"))
    return identity


def _policy(node: AnyNode, found: list[Finding]) -> Policy | None:
    if not node.policy.exists():
        found.append(Finding("policy", WARNING, "there is none: nothing is admitted but by hand", "write policy.toml"))
        return None
    try:
        policy = read_policy(node.policy)
    except FederationError as error:
        found.append(Finding("policy", FAILED, str(error), "mend the field; until then nothing is admitted"))
        return None
    if ROLES[type(policy)] is not node.role:
        found.append(Finding("policy", FAILED, f"is a {ROLES[type(policy)]}'s", f"write one for a {node.role}"))
        return None
    found.append(Finding("policy", OK, "understood"))
    return policy


def _folders(node: AnyNode) -> Iterator[Finding]:
    place = node.state if node.state.exists() else node.folder
    if not os.access(place, os.W_OK):
        yield Finding("state", FAILED, f"{place} cannot be written", "run as its owner, or chown it")
        return
    mode = stat.S_IMODE(node.state.stat().st_mode) if node.state.exists() else 0o700
    free = shutil.disk_usage(place).free
    if mode & 0o077:
        yield Finding(
            "state", FAILED, f"{node.state.name} has mode {mode:o}, others may look in", f"chmod 700 {node.state}"
        )
    elif free < LEAST_FREE_BYTES:
        yield Finding("state", WARNING, f"{free >> 20} MiB are free", "free at least 1 GiB: a full disk stops the node")
    else:
        yield Finding("state", OK, f"{free >> 30} GiB free")


def _books(node: AnyNode) -> Iterator[Finding]:
    """Trail and ledger, from the first entry on."""
    if node.trail.exists():
        try:
            found = verify_trail(node.trail)
            yield Finding("trail", OK, f"{found.head.sequence} entries, intact; head {found.head}")
        except FederationError as error:
            yield Finding("trail", FAILED, str(error), "keep the file for whoever investigates; restore a backup")
    if node.ledger.exists():
        from privacy.ledger import Ledger

        try:
            head = Ledger.open(node.ledger).verify()
            yield Finding("ledger", OK, f"{head.sequence} entries, intact; head {head}")
        except PrivacyError as error:
            yield Finding("ledger", FAILED, str(error), "keep both files for whoever investigates; restore a backup")


def _peers(node: AnyNode, policy: Policy | None, found: list[Finding]) -> dict[str, Reached]:
    """All at once: one that does not answer takes seconds."""
    wanted: list[tuple[str, Address, Role, str | None]] = []
    if isinstance(node, PartyNode):
        wanted.append(
            (f"coordinator {node.coordinator_name}", node.coordinator, Role.coordinator, node.coordinator_name)
        )
    if isinstance(node, PartyNode | CoordinatorNode):
        wanted += [(f"aggregator {name}", address, Role.aggregator, name) for name, address in node.aggregators.items()]
    elif node.peer_address is not None:
        wanted.append((f"aggregator {node.peer_name}", node.peer_address, Role.aggregator, node.peer_name))
    reached: dict[str, Reached] = {}

    def one(task: tuple[str, Address, Role, str | None]) -> Finding:
        check, address, role, name = task
        try:
            peer = reached[check] = probe(address, node.identity, role, name)
        except UnreachableError as error:
            return Finding(check, FAILED, error.problem, error.fix)
        if peer.days_left < RENEW_DAYS:
            return Finding(check, WARNING, f"its certificate has {peer.days_left:.0f} days left", "tell its operator")
        return Finding(check, OK, f"{address} answers in {peer.milliseconds:.0f} ms over TLS 1.3 and accepts this node")

    if wanted:
        with ThreadPoolExecutor(len(wanted)) as pool:
            found += pool.map(one, wanted)
    if isinstance(node, AggregatorNode) and node.peer_address is None:
        found.append(Finding(f"aggregator {node.peer_name}", UNKNOWN, "it dials this node: run the doctor over there"))
    if isinstance(policy, PartyPolicy) and isinstance(node, PartyNode):
        if node.coordinator_name not in policy.coordinators:
            found.append(Finding(
                "policy", WARNING, f"does not know the coordinator {node.coordinator_name}", "add it to coordinators"
            ))  # fmt: skip
        for name in sorted(set(node.aggregators) - set(policy.aggregators)):
            found.append(Finding("policy", WARNING, f"does not know the aggregator {name}", "add it to [aggregators]"))
    return reached


def _clock(reached: dict[str, Reached]) -> Finding:
    """The kernel knows whether a time service keeps its clock; peers' certificates bound it from below at least."""
    now = dt.datetime.now(dt.UTC)
    for peer, each in reached.items():
        if each.issued > now:
            return Finding("clock", FAILED, f"is before {peer}'s certificate was made", "set it by NTP")
    error = clock_error_seconds()
    if error is None:
        return Finding("clock", UNKNOWN, "no time service keeps it, and no peer tells its own", "run chrony or ntpd")
    if error > LARGEST_CLOCK_ERROR_SECONDS:
        return Finding("clock", FAILED, f"may be off by {error:.1f} s", "let chrony or ntpd set it")
    return Finding("clock", OK, f"kept by a time service, within {max(error, 0.001):.3f} s")


def _admitted(node: AnyNode, found: list[Finding]) -> list[Manifest]:
    if not node.admissions.exists():
        return []
    try:
        record = AdmissionRecord(node.admissions)
        return [admission.manifest for admission, withdrawn in record.all() if not withdrawn]
    except FederationError as error:
        found.append(Finding("admissions", FAILED, str(error), "restore state/admissions.sqlite from a backup"))
        return []


def _manifest(node: AnyNode, identity: Identity | None, manifest: Manifest) -> Iterator[Finding]:
    check = f"run {manifest.run}"
    if identity is not None and identity.name not in manifest.identities(node.role):
        yield Finding(check, FAILED, f"does not list {identity.name}", "ask for a manifest that does")
        return
    if isinstance(node, AggregatorNode) and identity is not None:
        names = [operator.name for operator in manifest.aggregators]
        if names.index(identity.name.name) != node.index:
            place = "dials" if node.index == 0 else "is dialled"
            text = f"has the aggregators in the order {', '.join(names)}, and this node {place}"
            yield Finding(check, FAILED, text, "the first one dials: change node.toml or the manifest")
    yield _guarded(f"{check}: ring", lambda: _range(f"{check}: ring", manifest))
    if isinstance(node, PartyNode):
        name = identity.name.name if identity is not None else None
        yield _guarded(f"{check}: data", lambda: _data(f"{check}: data", node, name, manifest))
    else:
        yield _guarded(f"{check}: vocabulary", lambda: _vocabulary(f"{check}: vocabulary", manifest))


def _guarded(check: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except (FederationError, PartyError, PrivacyError, MpcError, OSError) as error:
        return Finding(check, FAILED, str(error), "correct the records, the schema or the installation")


def _range(check: str, manifest: Manifest) -> Finding:
    from parley.federation.meaning import margin_bits

    margin = min(margin_bits(manifest, index) for index in manifest.kinds_of_rounds)
    text = f"the largest possible sum could double {margin:.1f} times before it left the ring"
    if margin < LEAST_MARGIN_BITS:
        return Finding(check, FAILED, text, "lower noise.fraction_bits in the manifest")
    return Finding(check, OK, text)


def _vocabulary(check: str, manifest: Manifest) -> Finding:
    from deploy.vocabulary import check_vocabulary

    check_vocabulary(manifest)
    return Finding(check, OK, "this installation knows its model, schema and algorithm")


def _data(check: str, node: PartyNode, name: str | None, manifest: Manifest) -> Finding:
    from deploy.vocabulary import check_vocabulary
    from party.records import load
    from party.schema import schema_from_json

    check_vocabulary(manifest)
    records = load(node.data, schema_from_json(manifest.schema.body))
    text = f"{len(records.rows):,} records of {records.units:,} units fit the schema"
    if name is not None:
        due = manifest.mechanism.sampler(name, 0).units
        if due != records.units:
            return Finding(
                check,
                FAILED,
                f"{text}, and the manifest counts {due:,} units",
                "have the manifest give the true number",
            )
    cut = sum(records.adjusted.values())
    if cut:
        columns = ", ".join(sorted(records.adjusted))
        return Finding(check, WARNING, f"{text}; {cut:,} values were cut or left out: {columns}", "look at the columns")
    return Finding(check, OK, text)


def _data_files(node: PartyNode) -> Iterator[Finding]:
    for path in node.data:
        if not os.access(path, os.R_OK):
            why = "cannot be read" if path.exists() else "is not there"
            yield Finding(f"data {path.name}", FAILED, why, "correct [data] files, or the file's mode")
        else:
            yield Finding(f"data {path.name}", OK, "can be read")


def _budget(node: PartyNode | CoordinatorNode) -> Finding:
    if not node.ledger.exists():
        return Finding("budget", OK, f"nothing was spent; epsilon {node.epsilon:g} at delta {node.delta:g} in all")
    from party.client.admission import epsilon_spent
    from privacy.ledger import Ledger
    from privacy.lying import in_words

    try:
        ledger = Ledger.open(node.ledger)
        for population in ledger.populations.values():
            if isinstance(node, PartyNode) and population.name != node.population:
                continue
            if (population.cap.epsilon, population.cap.delta) != (node.epsilon, node.delta):
                cap = f"epsilon {population.cap.epsilon:g} at delta {population.cap.delta:g}"
                text = f"the ledger's cap of {population.name} is {cap}, and node.toml's another; the ledger's counts"
                return Finding("budget", WARNING, text, "write the ledger's into node.toml: caps are final")
            left = population.cap.epsilon - epsilon_spent(ledger, population.name)
            spent = population.spent
            lying = in_words(spent.epsilon_if_a_server_lies, spent.delta_if_a_server_lies)
            text = f"epsilon {left:.4g} of {population.cap.epsilon:g} left for {population.name}"
            if spent.epsilon_if_a_server_lies != 0:
                text += f"; {lying}"
            if left <= 0:
                return Finding("budget", FAILED, text, "no run on these records is possible any more")
            return Finding("budget", OK if left > population.cap.epsilon / 10 else WARNING, text)
    except PrivacyError as error:
        return Finding("budget", FAILED, str(error), "`parley ledger verify`")
    return Finding("budget", OK, "the ledger has no run on these records yet")


def healthy(findings: Sequence[Finding]) -> bool:
    return all(finding.state != FAILED for finding in findings)


def report(findings: Sequence[Finding], folder: Path) -> dict[str, Any]:
    """For scripts."""
    counts = {state: sum(each.state == state for each in findings) for state in (OK, WARNING, FAILED, UNKNOWN)}
    checks = [each.as_json() for each in findings]
    return {"node": str(folder), "healthy": healthy(findings), **counts, "checks": checks}
