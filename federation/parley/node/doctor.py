"""What `parley doctor` looks at: each check says ok, or what is wrong and what mends it.

`warning` is for what works today; `unknown` for what cannot be told from here. Only `failed` makes a node unhealthy.
What a role has beside is looked at in its own room (`parley.party.doctor`). Details of a party's records are for its
operator's eyes: they are in the report of the machine that holds the records, and the report is sent nowhere.
"""

import datetime as dt
import os
import platform
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
from parley.federation.admission import AdmissionRecord
from parley.federation.errors import FederationError
from parley.federation.extras import EXTRAS, missing
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.policy import ROLES, PartyPolicy, Policy
from parley.federation.policy_file import read_policy
from parley.mpc.errors import MpcError
from parley.mpc.kernels import best_variant
from parley.node import trust
from parley.node.clock import clock_error_seconds
from parley.node.credentials import KEY_FILE, Identity
from parley.node.errors import NodeError
from parley.node.node_file import Address, AggregatorNode, AnyNode, CoordinatorNode, PartyNode, read_node
from parley.node.reachability import UnreachableError, probe
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


def examine_node(folder: Path) -> tuple[list[Finding], AnyNode | None, Identity | None]:
    """What every node's doctor looks at, before any run; no node where its node.toml is not understood."""
    found = [_software()]
    try:
        node = read_node(folder)
    except FederationError as error:
        fix = "correct the field; docs/federation.md has them all"
        return [*found, Finding("node.toml", FAILED, str(error), fix)], None, None
    found += [Finding("node.toml", OK, node.role.with_article), _machine(node)]
    identity = _identity(node, found)
    policy = _policy(node, found)
    found += [*_folders(node), *_books(node)]
    if identity is not None:
        _peers(node, policy, identity, found)
    found.append(_clock())
    return found, node, identity


def runs_to_look_at(node: AnyNode, given: Sequence[Manifest], found: list[Finding]) -> list[Manifest]:
    """Those that the node has admitted and those that are given, each once."""
    runs = list({manifest.digest: manifest for manifest in [*_admitted(node, found), *given]}.values())
    if not runs:
        fix = "to look at one that is not admitted yet: parley doctor NODE --manifest FILE"
        found.append(Finding("manifests", UNKNOWN, "none was admitted yet", fix))
    return runs


def examine_run(node: AnyNode, identity: Identity | None, manifest: Manifest) -> Iterator[Finding]:
    """Whether the node and the run are made for each other, but for what the node's role holds."""
    check = f"run {manifest.run}"
    if identity is not None and not is_member(node, identity, manifest):
        yield Finding(check, FAILED, f"does not list {identity.name}", "ask for a manifest that does")
        return
    if isinstance(node, AggregatorNode) and identity is not None:
        names = [operator.name for operator in manifest.aggregators]
        if names.index(identity.name.name) != node.index:
            place = "dials" if node.index == 0 else "is dialled"
            text = f"has the aggregators in the order {', '.join(names)}, and this node {place}"
            yield Finding(check, FAILED, text, "the first one dials: change node.toml or the manifest")
        asked, offered = (manifest.noise.cover, manifest.noise.precision), (node.noise.cover, node.noise.precision)
        if asked != offered:
            text = f"asks for the noise {'/'.join(asked)}, and this server offers {'/'.join(offered)}"
            yield Finding(
                f"{check}: noise", FAILED, text, "change [noise] in node.toml, on both servers, or the manifest"
            )
    if identity is not None:
        yield _pinned(f"{check}: pins", node, identity, manifest)
    yield guarded(f"{check}: ring", lambda: _range(f"{check}: ring", manifest))


def is_member(node: AnyNode, identity: Identity, manifest: Manifest) -> bool:
    return identity.name in manifest.identities(node.role)


def _software() -> Finding:
    version = f"parley {software_version()}, source {source_digest()[:16]}, Python {sys.version.split()[0]}"
    absent = [name for name, extra in EXTRAS.items() if extra == "accounting" and find_spec(name) is None]
    if absent:
        return Finding(
            "software",
            FAILED,
            f"{version}: {' and '.join(absent)} missing, and no manifest can be verified without",
            "pip install 'parley-federation[accounting]'",
        )
    return Finding("software", OK, version)


def _machine(node: AnyNode) -> Finding:
    """Whether the node can run on it."""
    try:
        require_linux()
        made = f", {best_variant()} kernels" if isinstance(node, AggregatorNode) else ""
    except (NodeError, MpcError) as error:
        problem, _, fix = str(error).partition(": ")
        return Finding("machine", FAILED, problem, fix)
    return Finding("machine", OK, f"Linux on {platform.machine()}{made}")


def _identity(node: AnyNode, found: list[Finding]) -> Identity | None:
    check = "certificate"
    try:
        identity = node.identity.load()
        name, expires = identity.name, identity.expires
    except FederationError as error:
        found.append(Finding(check, FAILED, str(error), "`parley node show`, then `parley node request` or `renew`"))
        return None
    if name.role is not node.role:
        found.append(
            Finding(
                check,
                FAILED,
                f"is for {name}, and node.toml is {node.role.with_article}'s",
                "correct role, or request another",
            )
        )
        return None
    days = (expires - dt.datetime.now(dt.UTC)) / dt.timedelta(days=1)
    text = f"{name}, {days:.0f} {'day' if round(days) == 1 else 'days'} left"
    found.append(
        Finding(check, WARNING, text, "`parley node renew`, and have it approved") if days < RENEW_DAYS
        else Finding(check, OK, text)
    )  # fmt: skip
    mode = stat.S_IMODE((node.identity.current / KEY_FILE).stat().st_mode)
    found.append(Finding("key", OK, f"mode {mode:o}, readable by its owner alone"))
    return identity


def _policy(node: AnyNode, found: list[Finding]) -> Policy | None:
    if not node.policy.exists():
        found.append(Finding("policy", WARNING, "there is none: runs are admitted only by hand", "write policy.toml"))
        return None
    try:
        policy = read_policy(node.policy)
    except FederationError as error:
        found.append(Finding("policy", FAILED, str(error), "correct the field; until then nothing is admitted"))
        return None
    if ROLES[type(policy)] is not node.role:
        found.append(
            Finding(
                "policy", FAILED, f"is {ROLES[type(policy)].with_article}'s", f"write one for {node.role.with_article}"
            )
        )
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
            "state", FAILED, f"{node.state.name} has mode {mode:o}, others can look inside", f"chmod 700 {node.state}"
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
        from parley.privacy.ledger import Ledger

        try:
            head = Ledger.open(node.ledger).verify()
            yield Finding("ledger", OK, f"{head.sequence} entries, intact; head {head}")
        except PrivacyError as error:
            yield Finding("ledger", FAILED, str(error), "keep both files for whoever investigates; restore a backup")


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
        took = f"{reached.milliseconds:.0f} ms"
        return Finding(check, OK, f"{address} has its pinned key, answers in {took} over TLS 1.3, accepts this node")

    if wanted:
        with ThreadPoolExecutor(len(wanted)) as pool:
            found += pool.map(one, wanted)
    if isinstance(node, AggregatorNode) and node.peer_address is None:
        check, peer = f"aggregator {node.peer_name}", NodeName(federation, Role.aggregator, node.peer_name)
        found.append(
            Finding(check, UNKNOWN, "it dials this node: run the doctor over there") if identity.pins.of(peer)
            else Finding(check, FAILED, f"{peer} is not pinned", f"`parley pin add {peer} PIN`")
        )  # fmt: skip
    if isinstance(policy, PartyPolicy) and isinstance(node, PartyNode):
        if node.coordinator_name not in policy.coordinators:
            found.append(Finding(
                "policy", WARNING, f"does not know the coordinator {node.coordinator_name}", "add it to coordinators"
            ))  # fmt: skip
        for name in sorted(set(node.aggregators) - set(policy.aggregators)):
            found.append(Finding("policy", WARNING, f"does not know the aggregator {name}", "add it to [aggregators]"))


def _clock() -> Finding:
    """The kernel knows whether a time service keeps its clock."""
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


def _pinned(check: str, node: AnyNode, identity: Identity, manifest: Manifest) -> Finding:
    """Everybody whom this node dials or serves in the run."""
    others = trust.unpinned(manifest, identity)
    missing = [name for name in others if not (isinstance(node, PartyNode) and name.role is Role.party)]
    if missing:
        fix = "`parley pin add`, each as its operator reads it out: until then it is not served"
        return Finding(
            check, FAILED, f"not pinned here: {', '.join(f'{each.role}/{each.name}' for each in missing)}", fix
        )
    return Finding(check, OK, "every member that this node dials or serves is pinned")


def guarded(check: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except (ParleyError, OSError) as error:
        return Finding(check, FAILED, str(error), "correct the records, the schema or the installation")
    except ImportError as error:
        wanted = missing(error)
        if wanted is None:
            raise
        return Finding(check, FAILED, "cannot be looked at", wanted)


def _range(check: str, manifest: Manifest) -> Finding:
    from parley.federation.meaning import margin_bits

    margin = min(margin_bits(manifest, index) for index in manifest.kinds_of_rounds)
    if margin < LEAST_MARGIN_BITS:
        text = f"the largest possible sum leaves {margin:.1f} bits to spare, and {LEAST_MARGIN_BITS:g} is the least"
        return Finding(check, FAILED, text, "lower noise.fraction_bits in the manifest")
    return Finding(check, OK, f"no overflow from answers that follow the protocol ({int(margin)} bits to spare)")


def budget(node: PartyNode | CoordinatorNode) -> Iterator[Finding]:
    """Of every population that node.toml names; of a coordinator's, that all its runs are charged to."""
    if not node.ledger.exists():
        yield Finding("budget", OK, f"nothing was spent; epsilon {node.epsilon:g} at delta {node.delta:g} in all")
        return
    from parley.privacy.ledger import Ledger

    here = {each.population for each in node.data} if isinstance(node, PartyNode) else None
    try:
        ledger = Ledger.open(node.ledger)
        charged = [each for each in ledger.populations.values() if here is None or each.name in here]
        yield from (_budget(node, ledger, each) for each in charged)
        if not charged:
            yield Finding("budget", OK, "the ledger has no run on these records yet")
    except PrivacyError as error:
        yield Finding("budget", FAILED, str(error), "`parley ledger verify`")


def _budget(node: PartyNode | CoordinatorNode, ledger: "Ledger", population: "Population") -> Finding:
    from parley.privacy.budget import budget_of

    if (population.cap.epsilon, population.cap.delta) != (node.epsilon, node.delta):
        cap = f"epsilon {population.cap.epsilon:g} at delta {population.cap.delta:g}"
        text = f"the ledger's cap of {population.name} is {cap}, and node.toml's another; the ledger's counts"
        return Finding("budget", WARNING, text, "write the ledger's into node.toml: caps are final")
    budget = budget_of(ledger.policy, population.cap, population.spent)
    text = f"{population.name}: {budget}"
    if budget.used_up:
        spent = " and ".join(budget.used_up)
        return Finding("budget", FAILED, text, f"{spent} is used up: no run on these records is possible any more")
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
