"""A party that was put back to an old state: what it asks its servers before it takes part in anything.

Each aggregator of node.toml says, signed and for this call, in which runs it has ever had this party. What any of them
tells and the ledger does not have is charged in full, the runs that were open are left, and only then does the process
go on. One server that hides a run hides nothing that the other one tells. A server that does not answer, that was
itself restored in between, or that names a run whose cost cannot be computed is not talked away: the party waits, or
its operator gives the whole cap up (`parley restore --account NODE --give-up`).
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import grpc

from parley.federation.admission import members_of
from parley.federation.errors import FederationError, ManifestError
from parley.federation.manifest import Manifest
from parley.federation.meaning import verify_apart_with_charge
from parley.federation.names import NodeName, Role
from parley.learning.errors import PartyError
from parley.learning.holding import read_holding
from parley.mpc import crash
from parley.node import logs
from parley.node.accounts import Ask, Heard, hear, manifest_in, unpaid
from parley.party.admission import Gate
from parley.party.data import data_set_of
from parley.party.outbox import ENDED, LEFT, OVER, REFUSED
from parley.party.review import cap_of
from parley.party.wire import Pauses, Wire, code_of
from parley.privacy.errors import LedgerRefusedError
from parley.privacy.filters import Charge
from parley.privacy.mechanism import Unit
from parley.privacy.put_back import Accounted

log = logs.logger()
ACCOUNT_SECONDS = 20.0
"""For one part."""
LOST = "this party was restored from a backup: the run is lost for it, and stays charged"


class AccountError(PartyError):
    """Without this the budget is not known, and nothing is answered."""

    public = True


@dataclass(frozen=True)
class Taken:
    """What came of it."""

    runs: tuple[str, ...]
    """Charged now, which the ledger did not have."""
    servers: tuple[str, ...]
    """Who has answered."""
    given_up: tuple[str, ...] = ()
    """Populations whose whole cap is spent."""


def servers_of(gate: Gate) -> list[NodeName]:
    """Those of node.toml, and those that the ledger has written down: an edit talks no silent one away."""
    names = dict.fromkeys((*gate.settings.aggregators, *sorted(gate.ledger.must_account)))
    return [NodeName(gate.node.federation, Role.aggregator, name) for name in names]


def known_servers(gate: Gate) -> set[str]:
    """All that this party may ever have answered to, as of the state that is put back: by node.toml, by its pins and
    by every manifest that it did not refuse.
    """
    pinned = {name for name in gate.settings.identity.load().pins if name.role is Role.aggregator}
    listed = {name for digest, _ in gate.record.rows() for name in gate.record.members(digest)}
    for held in gate.outbox.runs():
        if held.state != REFUSED:
            listed |= members_of(held.manifest)
    found = {
        name for name in pinned | listed if name.role is Role.aggregator and name.federation == gate.node.federation
    }
    return {*gate.settings.aggregators, *(name.name for name in found)}


def leave_open_runs(gate: Gate) -> list[str]:
    """Whatever was under way in the state that was put back is not gone on with; which runs that were."""
    over = {held.digest for held in gate.outbox.runs() if held.state in (*OVER, ENDED)}
    for admission, withdrawn in gate.record.all():
        if not withdrawn and admission.manifest.digest not in over:
            gate.record.withdraw(admission.manifest.digest)
    left = []
    for held in gate.outbox.runs():
        if held.state in (*OVER, ENDED, REFUSED):
            continue
        gate.record.never(held.digest)
        gate.outbox.finish(held.digest, gate.outbox.last(held.digest))
        gate.outbox.note(held.digest, held.run, held.manifest, LEFT, LOST)
        gate.trail.append("run.left", durable=True, run=held.run, manifest=held.digest.hex())
        left.append(held.run)
    return left


def asked(server: NodeName, gate: Gate, wire: Wire) -> Heard:
    """One server's whole account; a FederationError or a grpc.RpcError where there is none that counts."""
    if server not in wire.stubs:
        raise FederationError(
            f"{server} must account for this party, and node.toml does not have it any more: write its address there"
        )
    return hear(_ask(wire, server), lambda: wire.identity.pins, server, gate.node, gate.ledger.made)


def _ask(wire: Wire, server: NodeName) -> Ask:
    return partial(wire.stubs[server].Account, timeout=ACCOUNT_SECONDS)


def take(gate: Gate, wire: Wire, heard: Sequence[Heard], problems: Sequence[str] = (), give_up_by: str = "") -> Taken:
    """Charge what was heard. With `problems`, why not everything was, somebody has to give the whole cap up."""
    charged: list[Accounted] = []
    counted, uncounted, found = list[str](), list(problems), list[Manifest]()
    unknown = {digest: run for each in heard for digest, run in each.runs.items() if not _known(gate, digest)}
    for digest, run in unknown.items():
        if unpaid(digest, heard):
            try:
                asks = {each.server: _ask(wire, each.server) for each in heard if digest in each.runs}
                manifest = manifest_in(asks, digest, lambda error, server: _line(error, wire, server))
                charged += _charges(gate, manifest, {each.run for each in charged})
            except (FederationError, PartyError) as error:
                uncounted.append(f"what run {run.run} cost cannot be computed ({error})")
                continue
            found.append(manifest)
            counted.append(digest.hex())
    if uncounted and not give_up_by:
        raise AccountError("; ".join(uncounted))
    # Also those that node.toml does not name any more: it may name them again.
    populations = tuple(dict.fromkeys((*gate.settings.populations, *gate.ledger.populations))) if uncounted else ()
    names = dict.fromkeys((*populations, *(each.population for each in charged)))
    try:
        for name in names:
            gate.ledger.require_own(name, None, gate.settings.populations)
    except LedgerRefusedError as error:
        raise AccountError(str(error)) from None
    for name in names:
        _register(gate, name)
    for manifest in found:  # only now: what is asked again and again would fill the disk
        gate.outbox.note(manifest.digest, manifest.run, manifest.canonical, LEFT, LOST)
    for digest in unknown:
        gate.record.never(digest)
    rounds = dict.fromkeys(counted, 0)
    for each in heard:
        for digest, run in each.runs.items():
            if run.rounds or digest.hex() in rounds:
                rounds[digest.hex()] = max(run.rounds, rounds.get(digest.hex(), 0))
    accounts = {each.server.name: each.digest for each in heard}
    crash.point("party.accounted")
    gate.ledger.account(charged, rounds, accounts, populations, give_up_by if populations else "")
    servers = tuple(each.server.name for each in heard)
    for name in populations:
        gate.trail.append("budget.given_up", durable=True, population=name, approved_by=give_up_by)
    gate.trail.append("account.taken", durable=True, members=servers, runs=len(charged))
    return Taken(tuple(each.run for each in charged), servers, tuple(populations))


def until_taken(gate: Gate, wire: Wire, stop: threading.Event, beat: Callable[[], None]) -> Taken:
    """For a process: asks each server until it has answered, and goes on only then."""
    heard: dict[NodeName, Heard] = {}
    said, pauses = "", Pauses(stop)
    while True:
        beat()
        gate.ledger.verify()
        if not gate.ledger.waits_for_account:  # a person has taken it meanwhile
            return Taken((), ())
        wire.refresh()
        problems = []
        for server in servers_of(gate):
            if server in heard:
                continue
            try:
                with wire.stopping(stop):
                    heard[server] = asked(server, gate, wire)
            except (FederationError, grpc.RpcError) as error:
                problems.append(_line(error, wire, server))
        try:
            if not problems:
                return take(gate, wire, list(heard.values()))
        except AccountError as error:
            problems.append(str(error))
            heard.clear()
        if problems and problems[0] != said:
            said = problems[0]
            log.error("this party takes part in nothing before its servers account for it", error=AccountError(said))
        pauses.pause()


def now(gate: Gate, wire: Wire, give_up_by: str = "") -> Taken:
    """For a person: one attempt. An AccountError says who has not answered."""
    heard, problems = [], []
    for server in servers_of(gate):
        try:
            heard.append(asked(server, gate, wire))
        except (FederationError, grpc.RpcError) as error:
            problems.append(_line(error, wire, server))
    return take(gate, wire, heard, problems, give_up_by)


def _known(gate: Gate, digest: bytes) -> bool:
    """Whether the ledger has been charged for it, and not for another one of its name."""
    if digest.hex() in gate.ledger.accounted:
        return True
    return gate.charged_as(digest) is not None


def _charges(gate: Gate, manifest: Manifest, names: set[str]) -> list[Accounted]:
    """One; where only the data set is not known, as node.toml may have lost it, one for every population."""
    settings, ledger = gate.settings, gate.ledger
    if gate.node not in manifest.members:
        raise ManifestError("parties", f"do not name {gate.node}")
    charge: Charge = verify_apart_with_charge(manifest, gate.node.name, ledger.policy, settings.verified)[1]
    name = manifest.run
    if name in ledger.runs or name in names:  # by two manifests: the charges add up
        name = f"{manifest.run} {manifest.digest.hex()}"
    digest = manifest.digest.hex()
    try:
        return [Accounted(name, data_set_of(settings, manifest, gate.node).population, charge, digest)]
    except ManifestError:
        populations = tuple(dict.fromkeys((*settings.populations, *ledger.populations)))
        more = [f"{manifest.run} {digest} {index}" for index in range(1, len(populations))]
        return [Accounted(*each, charge, digest) for each in zip((name, *more), populations, strict=True)]


def _register(gate: Gate, name: str) -> None:
    """A population that the backup does not know, under the cap that was reviewed."""
    if name in gate.ledger.populations:
        return
    data = next(each for each in gate.settings.data if each.population == name)
    gate.ledger.register(name, Unit(read_holding(data.schema).unit), cap_of(gate.settings))


def _line(error: Exception, wire: Wire, server: NodeName) -> str:
    if not isinstance(error, grpc.RpcError):
        return str(error)
    if code_of(error) is grpc.StatusCode.UNIMPLEMENTED:
        return f"{server} is of an earlier version, which gives no accounts: its operator has to upgrade it"
    return str(wire.described(error, server))
