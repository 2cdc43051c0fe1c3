"""A coordinator that was put back to an old state: what its servers say of all the runs that it has ever led.

Its own ledger guarantees nothing to anybody, for each party keeps one of its own; but what it shows as spent is at
least what the servers have signed, and until then it begins no run.
"""

from contextlib import ExitStack, closing
from functools import partial

import grpc

from parley.coordinator.errors import StateError
from parley.coordinator.process import registered
from parley.coordinator.store import RunStore
from parley.federation.admission import AdmissionRecord
from parley.federation.errors import FederationError, ManifestError
from parley.federation.manifest import Manifest
from parley.federation.meaning import verify_apart_with_charge
from parley.federation.names import NodeName, Role
from parley.node import refusals, transport
from parley.node.accounts import Ask, Heard, hear, manifest_in, unpaid
from parley.node.alone import alone
from parley.node.connections import KEEPALIVE
from parley.node.credentials import Identity
from parley.node.node_file import CoordinatorNode
from parley.node.trail import Trail
from parley.privacy.ledger import Ledger
from parley.privacy.put_back import Accounted
from parley.v1 import aggregator_pb2_grpc

ACCOUNT_SECONDS = 20.0


def take(node: CoordinatorNode, give_up_by: str = "") -> tuple[list[str], list[str]]:
    """Charge what the servers tell and the ledger does not have; the runs, and populations that were given up.

    One attempt: a StateError says who has not answered.
    """
    identity = node.identity.load()
    with ExitStack() as stack:
        stack.enter_context(alone(node.state, Role.coordinator))
        ledger = stack.enter_context(closing(Ledger.open(node.ledger)))
        store = stack.enter_context(closing(RunStore(node.state / "runs.sqlite")))
        if not ledger.waits_for_account:
            raise StateError("this coordinator waits for no account")
        stubs = {}
        for name, address in node.aggregators.items():
            peer = NodeName(identity.name.federation, Role.aggregator, name)
            channel = stack.enter_context(transport.open_channel(str(address), identity, peer, KEEPALIVE))
            stubs[peer] = aggregator_pb2_grpc.ControlServiceStub(channel)
        heard, problems = _heard(stubs, identity, ledger)
        for name in sorted(ledger.must_account - node.aggregators.keys()):
            problems.append(f"aggregator {name} must account, and node.toml does not have it: write its address there")
        found: list[Accounted] = []
        rounds: dict[str, int] = {}
        digests = {digest for each in heard for digest in each.runs}
        for digest in sorted(digests):
            name = next(each.runs[digest].run for each in heard if digest in each.runs)
            row = store.get(digest)  # by its digest: a server may say any name
            held = None if row is None else ledger.runs.get(row.run)
            known = digest.hex() in ledger.accounted or (held is not None and not held.accounted)
            if known or not unpaid(digest, heard):
                continue
            try:
                asks = {each.server: _ask(stubs[each.server]) for each in heard if digest in each.runs}
                manifest = manifest_in(asks, digest, lambda error, server: _line(error, identity, server))
                if identity.name not in manifest.identities(Role.coordinator):
                    raise ManifestError("coordinator", f"does not name {identity.name}")
                found.append(_charge(node, ledger, manifest, {each.run for each in found}))
                rounds[digest.hex()] = max(each.runs[digest].rounds for each in heard if digest in each.runs)
            except FederationError as error:
                problems.append(f"what run {name} cost cannot be computed ({error})")
        if problems and not give_up_by:
            raise StateError("; ".join(problems))
        given_up = sorted(ledger.populations) if problems else []
        with closing(AdmissionRecord(node.admissions)) as record:
            for digest in digests:  # of those that this coordinator does not know, none is led again
                record.never(digest)
        accounts = {each.server.name: each.digest for each in heard}
        ledger.account(found, rounds, accounts, given_up, give_up_by if problems else "")
        with Trail.open(node.trail, identity.name) as trail:
            for population in given_up:
                trail.append("budget.given_up", durable=True, population=population, approved_by=give_up_by)
            trail.append("account.taken", durable=True, members=sorted(accounts), runs=len(found))
        return [each.run for each in found], given_up


def _heard(
    stubs: dict[NodeName, aggregator_pb2_grpc.ControlServiceStub], identity: Identity, ledger: Ledger
) -> tuple[list[Heard], list[str]]:
    heard, problems = [], []
    for server, stub in stubs.items():
        try:
            heard.append(hear(_ask(stub), lambda: identity.pins, server, identity.name, ledger.made))
        except FederationError as error:
            problems.append(str(error))
        except grpc.RpcError as error:
            problems.append(_line(error, identity, server))
    return heard, problems


def _ask(stub: aggregator_pb2_grpc.ControlServiceStub) -> Ask:
    return partial(stub.Account, timeout=ACCOUNT_SECONDS)


def _charge(node: CoordinatorNode, ledger: Ledger, manifest: Manifest, names: set[str]) -> Accounted:
    charge = verify_apart_with_charge(manifest, "", ledger.policy, node.verified)[1]
    name = manifest.run
    if name in ledger.runs or name in names:
        name = f"{manifest.run} {manifest.digest.hex()}"
    return Accounted(name, registered(ledger, node, manifest), charge, manifest.digest.hex())


def _line(error: grpc.RpcError, identity: Identity, server: NodeName) -> str:
    found = refusals.refusal_in(error) or transport.refusal_of(error, identity, server)
    return str(found) if found is not None else f"{server} does not answer"
