"""What `parley doctor` looks at: each check says ok, or what is wrong and what mends it.

`warning` is for what works today; `unknown` for what cannot be told from here. Only `failed` makes a node unhealthy.
What a role has beside is looked at in its own room (`parley.party.doctor`). Details of a party's records are for its
operator's eyes: they are in the report of the machine that holds the records, and the report is sent nowhere.
"""

import datetime as dt
import os
import platform
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.errors import ParleyError
from parley.federation.errors import FederationError
from parley.federation.extras import EXTRAS, missing, pip
from parley.federation.names import NodeName, Role
from parley.federation.policy import ROLES, PartyPolicy, Policy
from parley.federation.policy_file import read_policy
from parley.mpc.errors import MpcError
from parley.mpc.kernels import best_variant
from parley.node import proxies
from parley.node.clock import clock_error_seconds
from parley.node.credentials import KEY_FILE, Identity
from parley.node.errors import NodeError
from parley.node.evidence import EvidenceFolder
from parley.node.node_file import NODE_FILE, Address, AggregatorNode, AnyNode, CoordinatorNode, PartyNode, read_node
from parley.node.reachability import UnreachableError, probe
from parley.node.restoration import require_confirmed
from parley.node.software import software_version, source_digest
from parley.node.system import require_linux
from parley.node.trail import verify as verify_trail
from parley.privacy.errors import PrivacyError

if TYPE_CHECKING:
    from parley.privacy.ledger import Ledger
    from parley.privacy.ledger_state import Population

OK, WARNING, FAILED, UNKNOWN = "ok", "warning", "failed", "unknown"
RENEW_DAYS = 14
LEAST_FREE_BYTES = 1 << 30
LARGEST_CLOCK_ERROR_SECONDS = 5.0
CLOCK_FIX = "`sudo timedatectl set-ntp true`, or install chrony"


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


def edited(path: Path) -> str:
    """The command that opens a file in whatever editor there is."""
    return f"`${{EDITOR:-vi}} {shlex.quote(str(path))}`"


def examine_node(folder: Path) -> tuple[list[Finding], AnyNode | None, Identity | None]:
    """What every node's doctor looks at, before any run; no node where its node.toml is not understood."""
    found = [_software()]
    try:
        node = read_node(folder)
    except FederationError as error:
        path = folder if folder.name == NODE_FILE else folder / NODE_FILE
        fix = f"correct the field, {edited(path)}: docs/federation.md has them all"
        return [*found, Finding("node.toml", FAILED, str(error), fix)], None, None
    found += [Finding("node.toml", OK, node.role.with_article), _machine(node)]
    identity = _identity(node, found)
    policy = _policy(node, found)
    found += [*_restored(node), *_folders(node), *_books(node), *_evidence(node), *_notify(node)]
    if identity is not None:
        _peers(node, policy, identity, found)
    found += [*_proxy(), _clock()]
    return found, node, identity


def _restored(node: AnyNode) -> Iterator[Finding]:
    """Of a node that comes from a backup: whether somebody has compared its pins and its policy."""
    try:
        require_confirmed(node)
    except NodeError as error:
        yield Finding("restored", FAILED, str(error), f"`parley restore --confirm {_quoted(node.folder)} --by NAME`")


def _software() -> Finding:
    version = f"parley {software_version()}, source {source_digest()[:16]}, Python {sys.version.split()[0]}"
    absent = [name for name, extra in EXTRAS.items() if extra == "accounting" and find_spec(name) is None]
    if absent:
        return Finding(
            "software",
            FAILED,
            f"{version}: {' and '.join(absent)} missing, and no manifest can be verified without",
            "`pip install 'parley-federation[accounting]'`",
        )
    return Finding("software", OK, version)


def _machine(node: AnyNode) -> Finding:
    """Whether the node can run on it."""
    try:
        require_linux()
        made = f", {best_variant()} kernels" if isinstance(node, AggregatorNode) else ""
    except (NodeError, MpcError) as error:
        problem, _, fix = str(error).partition(": ")
        return Finding("machine", FAILED, problem, f"{fix}; `uname -sm` and `lscpu` say what this one is")
    return Finding("machine", OK, f"Linux on {platform.machine()}{made}")


def _identity(node: AnyNode, found: list[Finding]) -> Identity | None:
    check = "certificate"
    try:
        identity = node.identity.load()
        name, expires = identity.name, identity.expires
    except FederationError as error:
        found.append(Finding(check, FAILED, str(error), _identity_fix(node)))
        return None
    if name.role is not node.role:
        found.append(
            Finding(
                check,
                FAILED,
                f"is for {name}, and node.toml is {node.role.with_article}'s",
                f"correct role, {edited(node.folder / NODE_FILE)}, or give this folder a certificate of its own",
            )
        )
        return None
    days = (expires - dt.datetime.now(dt.UTC)) / dt.timedelta(days=1)
    text = f"{name}, {days:.0f} {'day' if round(days) == 1 else 'days'} left"
    renew = f"`parley node renew {_quoted(node.folder)}`, and have it approved"
    found.append(Finding(check, WARNING, text, renew) if days < RENEW_DAYS else Finding(check, OK, text))
    mode = stat.S_IMODE((node.identity.current / KEY_FILE).stat().st_mode)
    found.append(Finding("key", OK, f"mode {mode:o}, readable by its owner alone"))
    return identity


def _identity_fix(node: AnyNode) -> str:
    """A key that others may read is mended in place; for all else the folder says what it lacks."""
    folder, key = _quoted(node.folder), node.identity.current / KEY_FILE
    if key.exists() and stat.S_IMODE(key.stat().st_mode) & 0o077:
        anew = f"a new key, `parley node rotate {folder}`"
        return f"`chmod 600 {_quoted(key)}` if nobody else has read it; else {anew}"
    if not key.exists():
        return f"`parley node request parley://FEDERATION/{node.role}/NAME --node {folder}`, and have it approved"
    return f"`parley node show {folder}` says what is there, `parley node renew {folder}` asks for more"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _policy(node: AnyNode, found: list[Finding]) -> Policy | None:
    if not node.policy.exists():
        fix = f"`parley init EXAMPLE` writes one to start from; {edited(node.policy)}"
        found.append(Finding("policy", WARNING, "there is none: runs are admitted only by hand", fix))
        return None
    try:
        policy = read_policy(node.policy)
    except FederationError as error:
        fix = f"correct the field, {edited(node.policy)}: until then nothing is admitted"
        found.append(Finding("policy", FAILED, str(error), fix))
        return None
    if ROLES[type(policy)] is not node.role:
        what = f"is {ROLES[type(policy)].with_article}'s"
        fix = f"write one for {node.role.with_article}: `parley init EXAMPLE` has one, {edited(node.policy)}"
        found.append(Finding("policy", FAILED, what, fix))
        return None
    found.append(Finding("policy", OK, "understood"))
    return policy


def _folders(node: AnyNode) -> Iterator[Finding]:
    place = node.state if node.state.exists() else node.folder
    if not os.access(place, os.W_OK):
        fix = f"run as its owner, or `sudo chown -R $(id -un) {_quoted(place)}`"
        yield Finding("state", FAILED, f"{place} cannot be written", fix)
        return
    mode = stat.S_IMODE(node.state.stat().st_mode) if node.state.exists() else 0o700
    free = shutil.disk_usage(place).free
    if mode & 0o077:
        yield Finding(
            "state",
            FAILED,
            f"{node.state.name} has mode {mode:o}, others can look inside",
            f"`chmod 700 {_quoted(node.state)}`",
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
            fix = "keep the file for whoever investigates, and restore a backup"
            yield Finding("trail", FAILED, str(error), f"{fix}; `parley audit verify {_quoted(node.folder)}`")
    if node.ledger.exists():
        from parley.privacy.ledger import Ledger

        try:
            head = Ledger.open(node.ledger).verify()
            yield Finding("ledger", OK, f"{head.sequence} entries, intact; head {head}")
        except PrivacyError as error:
            fix = "keep both files for whoever investigates, and restore a backup"
            yield Finding("ledger", FAILED, str(error), f"{fix}; `parley ledger verify {_quoted(node.ledger)}`")


def _evidence(node: AnyNode) -> Iterator[Finding]:
    """Against servers of its runs."""
    check, folder = "evidence", EvidenceFolder(node.state)
    try:
        held, unread = folder.all(), folder.unread()
        for each in held:
            folder.read(each.digest)
    except FederationError as error:
        fix = f"`parley evidence list {_quoted(node.folder)}`: until it can be read this node begins nothing"
        yield Finding(check, FAILED, str(error), fix)
        return
    for each in held:
        if each.pending:
            answer = f"`parley evidence answer {_quoted(node.folder)} {each.digest[:16]} --by NAME --reason TEXT`"
            text = f"{each}: no further run with {each.server.name} is begun here"
            yield Finding(check, FAILED, text, f"find out what {each.server.name} runs, then {answer}")
    if unread:
        text = f"{len(unread)} kept and not looked at, or convicting nobody who is pinned here"
        yield Finding(check, WARNING, text, "start the node, which looks at it; compare pins")
    if held and not any(each.pending for each in held):
        yield Finding(check, OK, f"{len(held)} kept, all answered")


def _notify(node: AnyNode) -> Iterator[Finding]:
    """[notify], where there is one; nothing is started and nothing is sent."""
    if node.notify is None:
        return
    again = f"`parley node notify {_quoted(node.folder)}`"
    if node.notify.url:
        yield Finding("notify", UNKNOWN, "posts to the address in node.toml when something waits for you", again)
        return
    program = Path(node.notify.command[0])
    if not (program.is_file() and os.access(program, os.X_OK)):
        fix = f"correct [notify], {edited(node.folder / NODE_FILE)}, or `chmod u+x {_quoted(program)}`"
        yield Finding("notify", FAILED, f"{program} is no program that this user may start", fix)
    elif program.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield Finding("notify", FAILED, f"others may write {program}", f"`chmod go-w {_quoted(program)}`")
    else:
        yield Finding("notify", OK, f"starts {program} when something waits for you; {again} tries it")


def _peers(node: AnyNode, policy: Policy | None, identity: Identity, found: list[Finding]) -> None:
    """All at once: one that does not answer takes seconds."""
    federation = identity.name.federation
    wanted: list[tuple[NodeName, Address]] = []
    if isinstance(node, PartyNode):
        wanted.append((NodeName(federation, Role.coordinator, node.coordinator_name), node.coordinator))
    if isinstance(node, PartyNode | CoordinatorNode):
        wanted += [(NodeName(federation, Role.aggregator, name), at) for name, at in node.aggregators.items()]
    elif node.peer_address is not None:
        wanted.append((NodeName(federation, Role.aggregator, node.peer_name), node.peer_address))

    def one(task: tuple[NodeName, Address]) -> Finding:
        peer, address = task
        check = f"{peer.role} {peer.name}"
        try:
            reached = probe(address, node.identity, peer)
        except UnreachableError as error:
            return Finding(check, FAILED, error.problem, error.fix)
        took = f"{reached.milliseconds:.0f} ms{'' if reached.proxy is None else f' through the proxy {reached.proxy}'}"
        return Finding(check, OK, f"{address} has its pinned key, answers in {took} over TLS 1.3, accepts this node")

    if wanted:
        with ThreadPoolExecutor(len(wanted)) as pool:
            found += pool.map(one, wanted)
    if isinstance(node, AggregatorNode) and node.peer_address is None:
        check, peer = f"aggregator {node.peer_name}", NodeName(federation, Role.aggregator, node.peer_name)
        found.append(
            Finding(check, UNKNOWN, "it dials this node: run the doctor over there") if identity.pins.of(peer)
            else Finding(
                check, FAILED, f"{peer} is not pinned",
                f"`parley pin add {peer.role}/{peer.name} PIN --node {_quoted(node.folder)}`",
            )
        )  # fmt: skip
    if isinstance(policy, PartyPolicy) and isinstance(node, PartyNode):
        if node.coordinator_name not in policy.coordinators:
            what = f"does not know the coordinator {node.coordinator_name}"
            found.append(Finding("policy", WARNING, what, f"add it to coordinators, {edited(node.policy)}"))
        for name in sorted(set(node.aggregators) - set(policy.aggregators)):
            found.append(
                Finding(
                    "policy",
                    WARNING,
                    f"does not know the aggregator {name}",
                    f"add it to [aggregators], {edited(node.policy)}",
                )
            )


def _proxy() -> Iterator[Finding]:
    """Only where one was meant that gRPC does not take."""
    if unread := proxies.ignored():
        fix = "`export https_proxy=http://HOST:PORT` here and in the node's environment, or unset what is there"
        yield Finding("proxy", WARNING, f"{unread}; peers are dialled directly", fix)


def _clock() -> Finding:
    """The kernel knows whether a time service keeps its clock."""
    error = clock_error_seconds()
    if error is None:
        return Finding("clock", UNKNOWN, "no time service keeps it, and no peer tells its own", CLOCK_FIX)
    if error > LARGEST_CLOCK_ERROR_SECONDS:
        return Finding("clock", FAILED, f"may be off by {error:.1f} s", CLOCK_FIX)
    return Finding("clock", OK, f"kept by a time service, within {max(error, 0.001):.3f} s")


def guarded(check: str, look: Callable[[], Finding], fix: str) -> Finding:
    """What `look` finds; an error that a user can mend is a failure, with `fix` against it."""
    try:
        return look()
    except (ParleyError, OSError) as error:
        return Finding(check, FAILED, str(error), fix)
    except ImportError as error:
        wanted = missing(error)
        if wanted is None:
            raise
        module = (error.name or "").partition(".")[0]
        fix = f"`{pip(module)}`" if module in EXTRAS else "`parley doctor NODE` where all of parley is installed"
        return Finding(check, FAILED, f"cannot be looked at: {wanted.partition(': ')[0]}", fix)


def budget(node: PartyNode | CoordinatorNode) -> Iterator[Finding]:
    """Of every population that node.toml names; of a coordinator's, that all its runs are charged to."""
    if not node.ledger.exists():
        yield Finding("budget", OK, f"nothing was spent; epsilon {node.epsilon:g} at delta {node.delta:g} in all")
        return
    from parley.privacy.ledger import Ledger

    here = {each.population for each in node.data} if isinstance(node, PartyNode) else None
    try:
        ledger = Ledger.open(node.ledger)
        if ledger.waits_for_account:
            text = "the node was restored, and no server has said yet what it was charged since: nothing is charged"
            yield Finding("budget", FAILED, text, f"`parley restore --account {_quoted(node.folder)}`")
        charged = [each for each in ledger.populations.values() if here is None or each.name in here]
        yield from (_budget(node, ledger, each) for each in charged)
        if not charged:
            yield Finding("budget", OK, "the ledger has no run on these records yet")
    except PrivacyError as error:
        yield Finding("budget", FAILED, str(error), f"`parley ledger verify {_quoted(node.ledger)}`")


def _budget(node: PartyNode | CoordinatorNode, ledger: "Ledger", population: "Population") -> Finding:
    from parley.privacy.budget import budget_of

    if (population.cap.epsilon, population.cap.delta) != (node.epsilon, node.delta):
        cap = f"epsilon {population.cap.epsilon:g} at delta {population.cap.delta:g}"
        text = f"the ledger's cap of {population.name} is {cap}, and node.toml's another; the ledger's counts"
        return Finding(
            "budget", WARNING, text, f"write the ledger's, caps are final: {edited(node.folder / NODE_FILE)}"
        )
    budget = budget_of(ledger.policy, population.cap, population.spent)
    text = f"{population.name}: {budget}"
    if budget.used_up:
        spent = " and ".join(budget.used_up)
        what = f"{spent} is used up: no run on these records is possible any more"
        return Finding("budget", FAILED, text, f"{what}; `parley ledger show {_quoted(node.ledger)}` says what for")
    if budget.nearly_used_up:
        near = " and ".join(budget.nearly_used_up)
        return Finding("budget", WARNING, text, f"{near} is nearly used up: plan the last runs with it")
    return Finding("budget", OK, text)


def healthy(findings: Sequence[Finding]) -> bool:
    return all(finding.state != FAILED for finding in findings)


def report(findings: Sequence[Finding], folder: Path) -> dict[str, Any]:
    """For scripts."""
    counts = {state: sum(each.state == state for each in findings) for state in (OK, WARNING, FAILED, UNKNOWN)}
    checks = [each.as_json() for each in findings]
    return {"node": str(folder), "healthy": healthy(findings), **counts, "checks": checks}
