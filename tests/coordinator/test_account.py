"""A coordinator that was put back to an old state: what either server tells is charged, and silence is no account."""

from collections.abc import Iterator
from concurrent import futures
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

import parley.coordinator.account
from parley.coordinator.account import take
from parley.coordinator.errors import StateError
from parley.coordinator.process import registered
from parley.coordinator.store import RunStore
from parley.federation.admission import AdmissionRecord
from parley.federation.errors import ApprovalError
from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.node.alone import alone
from parley.node.authority import ThrowAwayAuthority
from parley.node.errors import NodeError
from parley.node.node_file import Address, CoordinatorNode
from parley.node.trail import events_in
from parley.node.transport import server_credentials
from parley.privacy.filters import Policy
from parley.privacy.ledger import Ledger
from parley.v1 import aggregator_pb2_grpc
from tests.support import documents
from tests.support.accounted import Run, accounted
from tests.support.lead import LEAD, SERVERS, verified

MADE = 1_700_000_000


class Server(aggregator_pb2_grpc.ControlServiceServicer):
    """One server's control port, which gives accounts."""

    def __init__(self, identity: Any) -> None:
        self.identity = identity
        self.runs: list[Run] = []
        self.restored: list[tuple[int, int]] = []
        self.silent = False
        self.manifest: bytes | None = None
        """Handed out in place of any other."""

    def Account(self, request: Any, context: Any) -> Any:
        if self.silent:
            context.abort(grpc.StatusCode.UNAVAILABLE, "away")
        answer = accounted(self.identity, LEAD, request, self.runs, self.restored)
        if answer.manifest and self.manifest is not None:
            answer.manifest = self.manifest
        return answer


class Restored:
    """A coordinator's folder that waits for its account, and both its servers."""

    def __init__(self, folder: Path, before: Manifest | None = None) -> None:
        """With a run that it led and was charged for, if one is given."""
        self._authority = ThrowAwayAuthority("cardio")
        self._servers = []
        self.servers, addresses = [], {}
        for name in SERVERS:
            home = self._authority.install(folder / name.name, name)
            server, scripted = grpc.server(futures.ThreadPoolExecutor(4)), Server(home.load())
            aggregator_pb2_grpc.add_ControlServiceServicer_to_server(scripted, server)
            addresses[name.name] = Address("127.0.0.1", server.add_secure_port("127.0.0.1:0", server_credentials(home)))
            server.start()
            self._servers.append(server)
            self.servers.append(scripted)
        self._authority.install(folder / "lead" / "identity", LEAD)
        self.node = CoordinatorNode(folder=folder / "lead", listen=(), aggregators=addresses, epsilon=1000.0, delta=0.1)
        self.node.state.mkdir(mode=0o700)
        with closing(Ledger.create(self.node.ledger, Policy())) as ledger:
            if before is not None:
                ledger.reserve(before.run, registered(ledger, self.node, before), verified(before)[1])
            ledger.put_back(MADE, "ab" * 16, {name.name for name in SERVERS})
        if before is not None:
            with closing(RunStore(self.node.state / "runs.sqlite")) as store:
                store.submit(before.digest, before.run, before.canonical)

    def both(self, *runs: Run) -> None:
        for server in self.servers:
            server.runs = list(runs)

    def ledger(self) -> Any:
        return closing(Ledger.open(self.node.ledger))

    def close(self) -> None:
        for server in self._servers:
            server.stop(0)


@pytest.fixture
def put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Restored]:
    monkeypatch.setattr(parley.coordinator.account, "verify_apart_with_charge", verified)
    made = Restored(tmp_path)
    yield made
    made.close()


def run(name: str, **changes: Any) -> Manifest:
    return documents.manifest(run=name, **changes)


def test_what_either_server_tells_is_charged_and_never_led_again(put_back: Restored) -> None:
    one, other, over = run("told-by-one"), run("told-by-the-other"), run("over-before-it-began")
    north, south = put_back.servers
    north.runs, south.runs = [(one, 3, True), (over, 0, True)], [(other, 0, False), (over, 0, True)]
    runs, given_up = take(put_back.node)
    assert (sorted(runs), given_up) == (["told-by-one", "told-by-the-other"], [])
    with put_back.ledger() as ledger:
        assert set(ledger.runs) == {"told-by-one", "told-by-the-other"}
        assert all(each.accounted and not each.ended for each in ledger.runs.values())
        assert not ledger.waits_for_account
    with closing(AdmissionRecord(put_back.node.admissions)) as record:
        for made in (one, other, over):
            with pytest.raises(ApprovalError):
                record.put(made, "policy", "policy")
    assert [each.event for each in events_in(put_back.node.trail)] == ["account.taken"]
    with pytest.raises(StateError, match="waits for no account"):
        take(put_back.node)


def test_a_run_of_its_own_books_is_known_by_its_digest_and_not_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parley.coordinator.account, "verify_apart_with_charge", verified)
    known, decoy = run("heart-1"), run("heart-1", **{"parties.0.name": "hospital-z"})
    with closing(Restored(tmp_path, known)) as made:
        made.both((known, 2, True), (decoy, 2, True))
        assert take(made.node) == ([f"heart-1 {decoy.digest.hex()}"], [])
        with made.ledger() as ledger:
            assert not ledger.runs["heart-1"].accounted


@pytest.mark.parametrize("place", [0, 1])
def test_a_server_that_is_silent_or_has_forgotten_is_not_talked_away(put_back: Restored, place: int) -> None:
    put_back.both((run("told"), 1, True))
    server = put_back.servers[place]
    server.silent = True
    with pytest.raises(StateError, match=SERVERS[place].name):
        take(put_back.node)
    server.silent, server.restored = False, [(MADE - 60, MADE + 60)]
    with pytest.raises(StateError, match="has forgotten"):
        take(put_back.node)
    with put_back.ledger() as ledger:
        assert ledger.waits_for_account
        assert not ledger.runs
    runs, given_up = take(put_back.node, "Dr. Ada Osei")
    assert runs == ["told"]
    assert given_up
    with put_back.ledger() as ledger:
        assert not ledger.waits_for_account


def test_a_manifest_that_is_not_what_was_named_charges_nothing_and_is_said(put_back: Restored) -> None:
    put_back.both((run("told"), 1, True))
    for server in put_back.servers:
        server.manifest = run("another").canonical
    with pytest.raises(StateError, match="another manifest than it names"):
        take(put_back.node)
    put_back.servers[1].manifest = None  # one that hands out the right one is enough
    assert take(put_back.node)[0] == ["told"]


def test_a_run_that_somebody_else_leads_is_charged_to_nobody_here(put_back: Restored) -> None:
    put_back.both((run("told", **{"coordinator.name": "stranger"}), 1, True))
    with pytest.raises(StateError, match="does not name"):
        take(put_back.node)
    with put_back.ledger() as ledger:
        assert not ledger.runs


def test_a_server_that_must_account_and_is_not_in_the_node_file_is_named(put_back: Restored) -> None:
    node = put_back.node
    cut = CoordinatorNode(
        folder=node.folder, listen=(), aggregators={"north": node.aggregators["north"]}, epsilon=1000.0, delta=0.1
    )
    with pytest.raises(StateError, match="aggregator south must account"):
        take(cut)


def test_not_while_the_coordinator_runs(put_back: Restored) -> None:
    with alone(put_back.node.state, Role.coordinator), pytest.raises(NodeError, match="another process"):
        take(put_back.node)
