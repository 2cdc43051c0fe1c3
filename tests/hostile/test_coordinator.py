"""What a real coordinator refuses, each with its type; the honest run still comes to its end."""

import threading
from concurrent import futures
from typing import Any

import grpc
import pytest

from parley.coordinator.store import State
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import bounded_wait
from parley.v1 import coordinator_pb2, coordinator_pb2_grpc, operator_pb2
from tests.support import documents
from tests.support.lead import LEAD, PARTIES, SECONDS, Lead, asking, joining, refused
from tests.support.until import until

ROUND = coordinator_pb2.NextRoundResponse.STATE_ROUND
NOBODY = bytes(32)


def test_who_has_no_part_in_a_run_learns_nothing_of_it(lead: Lead, running: Manifest) -> None:
    other = lead.running(running.run + "-x", **{"parties.2.name": "hospital-x"})
    stranger = lead.stub("hospital-x")
    assert refused(lambda: stranger.Join(joining(running), timeout=SECONDS)) == "not_a_member"
    assert refused(lambda: stranger.NextRound(asking(running), timeout=SECONDS)) == "not_a_member"
    fetch = coordinator_pb2.FetchPointRequest(manifest_digest=running.digest, digest=NOBODY)
    assert refused(lambda: stranger.FetchPoint(fetch, timeout=SECONDS)) == "not_a_member"
    found = stranger.ListRuns(coordinator_pb2.ListRunsRequest(wait_seconds=0), timeout=SECONDS).manifests
    assert running.canonical not in found
    assert other.canonical in found
    # What is said of a run that does not exist is the same, word for word.
    assert refused(lambda: stranger.NextRound(asking(running), timeout=SECONDS)) == refused(
        lambda: stranger.Join(coordinator_pb2.JoinRequest(manifest_digest=NOBODY), timeout=SECONDS)
    )


@pytest.mark.parametrize(
    "name",
    [
        NodeName("cardio", Role.aggregator, "north"),
        NodeName("cardio", Role.coordinator, "hospital-a"),
        LEAD,
        NodeName("cardio", Role.party, "nobody"),
    ],
    ids=lambda name: str(name.uri),
)
def test_only_parties_of_a_run_call_the_parties_methods(lead: Lead, running: Manifest, name: NodeName) -> None:
    stub = lead.stub(name)
    fetch = coordinator_pb2.FetchPointRequest(manifest_digest=running.digest, digest=NOBODY)
    for call in (
        lambda: stub.Join(joining(running), timeout=SECONDS),
        lambda: stub.NextRound(asking(running), timeout=SECONDS),
        lambda: stub.FetchPoint(fetch, timeout=SECONDS),
    ):
        assert refused(call) == "permission_denied"


def test_a_party_of_another_federation_is_not_pinned_and_does_not_connect(lead: Lead, running: Manifest) -> None:
    stub = lead.stub(NodeName("other", Role.party, "hospital-a"))
    assert refused(lambda: stub.Join(joining(running), timeout=SECONDS)) == "unavailable"


def test_a_join_is_of_who_sends_it(lead: Lead, run_name: str) -> None:
    """The bytes of another party's Join, replayed, are one's own Join."""
    made = lead.submit(run_name)
    replayed = joining(made).SerializeToString()
    for _ in range(3):
        lead.stub("hospital-b").Join(coordinator_pb2.JoinRequest.FromString(replayed), timeout=SECONDS)
    assert lead.process.runs.all[made.digest].joined == {"hospital-b"}
    assert refused(lambda: lead.stub("hospital-a").NextRound(asking(made), timeout=SECONDS)) == "not_a_member"


def test_a_party_that_leaves_and_comes_back_counts_once(lead: Lead, running: Manifest) -> None:
    run = lead.process.runs.all[running.digest]
    stub = lead.stub("hospital-c")
    stub.Join(joining(running, False, "[/bold] \x1b[2J\nleaving"), timeout=SECONDS)
    assert "hospital-c" not in run.expected()
    assert run.refused["hospital-c"] == "[/bold] [2Jleaving"
    assert refused(lambda: stub.NextRound(asking(running), timeout=SECONDS)) == "not_a_member"
    stub.Join(joining(running), timeout=SECONDS)
    assert list(run.expected()) == sorted(PARTIES)
    assert stub.NextRound(asking(running), timeout=SECONDS).state == ROUND
    lead.finishes(running)


@pytest.mark.parametrize(
    ("after", "kind"),
    [(0x7FFFFFFF, "contradiction"), (39, "contradiction"), (1, "contradiction"), (-2, "malformed")],
)
def test_rounds_that_were_never_asked_are_refused(lead: Lead, running: Manifest, after: int, kind: str) -> None:
    lead.stub().NextRound(asking(running), timeout=SECONDS)  # the first round is there
    assert refused(lambda: lead.stub().NextRound(asking(running, after), timeout=SECONDS)) == kind


@pytest.mark.parametrize("wait", [float("nan"), float("-inf"), -1.0, -1e308, 0.0, 1e-300])
def test_a_wait_that_is_no_time_is_no_wait(lead: Lead, running: Manifest, wait: float) -> None:
    assert max(0.0, wait if wait == wait else 0.0) >= bounded_wait(wait)
    answer = lead.stub().NextRound(asking(running, 0, wait), timeout=SECONDS)
    assert answer.state == coordinator_pb2.NextRoundResponse.STATE_WAIT
    known = coordinator_pb2.ListRunsRequest(known_digests=list(lead.process.runs.all), wait_seconds=wait)
    assert not lead.stub().ListRuns(known, timeout=SECONDS).manifests


@pytest.mark.parametrize("wait", [float("inf"), 1e308])
@pytest.mark.slow
def test_a_wait_without_end_ends_with_the_round(lead: Lead, running: Manifest, wait: float) -> None:
    call = lead.stub().NextRound.future(asking(running, 0, wait), timeout=SECONDS)
    lead.finishes(running)
    assert call.result().state in (ROUND, coordinator_pb2.NextRoundResponse.STATE_ENDED)


def test_lists_without_end_are_refused(lead: Lead, running: Manifest) -> None:
    stub = lead.stub()
    many = [number.to_bytes(4, "little") for number in range(200_000)]
    for call in (
        lambda: stub.ListRuns(coordinator_pb2.ListRunsRequest(known_digests=many), timeout=SECONDS),
        lambda: stub.NextRound(asking(running, held_points=many), timeout=SECONDS),
    ):
        assert refused(call) == "malformed"


@pytest.mark.parametrize("digest", [b"", b"x", bytes(31), bytes(33), bytes(1 << 20)], ids=len)
def test_a_digest_of_another_length_is_malformed(lead: Lead, running: Manifest, digest: bytes) -> None:
    stub = lead.stub()
    for call in (
        lambda: stub.Join(coordinator_pb2.JoinRequest(manifest_digest=digest), timeout=SECONDS),
        lambda: stub.NextRound(coordinator_pb2.NextRoundRequest(manifest_digest=digest), timeout=SECONDS),
        lambda: stub.FetchPoint(coordinator_pb2.FetchPointRequest(manifest_digest=digest), timeout=SECONDS),
    ):
        assert refused(call) == "malformed"


def test_only_points_that_are_asked_about_are_fetched(lead: Lead, running: Manifest) -> None:
    stub = lead.stub()
    point = stub.NextRound(asking(running), timeout=SECONDS).round.points[0]

    def fetch(digest: bytes, offset: int = 0) -> Any:
        request = coordinator_pb2.FetchPointRequest(manifest_digest=running.digest, digest=digest, offset=offset)
        return stub.FetchPoint(request, timeout=SECONDS)

    assert fetch(point.digest).data == point.data
    for digest in (NOBODY, b"", running.digest, b"../" * 11):
        assert refused(lambda d=digest: fetch(d)) == "too_late"  # type: ignore[misc]
    for offset in (24, 25, (1 << 64) - 1):
        assert refused(lambda o=offset: fetch(point.digest, o)) == "malformed"  # type: ignore[misc]


def test_a_flood_of_polls_of_one_party_is_refused_and_others_are_served(lead: Lead, run_name: str) -> None:
    gathering, running = lead.submit(run_name), lead.running(run_name + "-2")
    stub = lead.stub("hospital-b")
    stub.Join(joining(gathering), timeout=SECONDS)
    calls = [stub.NextRound.future(asking(gathering, -1, 20.0), timeout=SECONDS) for _ in range(60)]
    found = [in_future(call) for call in calls]
    until(lambda: sum(each.done() for each in found) >= 20)
    assert {each.result() for each in found if each.done()} == {"busy"}
    assert not all(each.done() for each in found)
    assert lead.stub("hospital-a").NextRound(asking(running), timeout=SECONDS).state == ROUND
    for call in calls:
        call.cancel()


def in_future(call: Any) -> "futures.Future[str]":
    made: futures.Future[str] = futures.Future()
    threading.Thread(target=lambda: made.set_result(outcome(call)), daemon=True).start()
    return made


def outcome(call: Any) -> str:
    try:
        return refused(call.result)
    except (futures.CancelledError, grpc.FutureCancelledError):
        return "cancelled"
    except AssertionError:
        return "answered"


def test_a_flood_of_joins_of_one_party_is_refused(lead: Lead, running: Manifest) -> None:
    """Each change of mind is durable and in the audit trail: a party must not fill the disk with them."""
    stub, kinds = lead.stub("hospital-b"), []
    for number in range(200):
        call = stub.Join.future(joining(running, number % 2 == 1, str(number)), timeout=SECONDS)
        if (kind := outcome(call)) != "answered":
            kinds.append(kind)
    assert len(kinds) > 100
    assert set(kinds) == {"contradiction"}
    assert lead.stub("hospital-a").NextRound(asking(running), timeout=SECONDS).state == ROUND


@pytest.mark.slow
def test_a_run_that_is_over_is_not_joined_or_reopened(lead: Lead, running: Manifest) -> None:
    lead.finishes(running)
    for after in (-1, 0, 38):
        answer = lead.stub().NextRound(asking(running, after), timeout=SECONDS)
        assert answer.state == coordinator_pb2.NextRoundResponse.STATE_ENDED
        assert len(answer.ends) == 2
    lead.stub().Join(joining(running, False, "too late"), timeout=SECONDS)
    assert lead.process.runs.all[running.digest].state is State.finished
    for ask in (
        lambda: lead.operator.Resume(operator_pb2.ResumeRequest(run=running.run), timeout=SECONDS),
        lambda: lead.operator.Stop(operator_pb2.StopRequest(run=running.run, final=True), timeout=SECONDS),
    ):
        assert refused(ask) == "failed_precondition"


def test_the_operators_service_is_not_on_the_parties_port(lead: Lead, running: Manifest) -> None:
    from parley.v1 import operator_pb2_grpc

    for who in ("hospital-a", LEAD):
        stub: Any = operator_pb2_grpc.OperatorServiceStub(lead.channel(who))
        request = operator_pb2.StopRequest(run=running.run, final=True)
        assert refused(lambda s=stub, r=request: s.Stop(r, timeout=SECONDS)) in {"unimplemented", "permission_denied"}  # type: ignore[misc]
    local: Any = coordinator_pb2_grpc.CoordinatorServiceStub(lead._local)
    assert refused(lambda: local.NextRound(asking(running), timeout=SECONDS)) == "unimplemented"


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: setattr(answer, "opening", b"another opening."),
        lambda answer: answer.contributors.pop(),
        lambda answer: setattr(answer, "size", 16),
        lambda answer: setattr(answer, "share", answer.share + b"more bytes"),
        lambda answer: setattr(answer, "share", b"\x00\x00\x00\x40\x00\x00\x00\x00" * 3),
    ],
    ids=["opening", "contributors", "length", "longer", "beyond the range"],
)
def test_shares_that_do_not_belong_together_end_the_run(lead: Lead, running: Manifest, change: Any) -> None:
    def spoil(answer: Any) -> Any:
        change(answer)
        return answer

    lead.servers[0].change = spoil
    try:
        lead.opening.set()
        run = lead.process.runs.all[running.digest]
        until(lambda: run.state is State.failed)
        assert run.state is State.failed
    finally:
        lead.opening.clear()
        lead.servers[0].change = lambda answer: answer


def test_a_sum_over_too_few_or_over_strangers_ends_the_run(lead: Lead, run_name: str) -> None:
    for number, names in enumerate((["hospital-a"], ["hospital-a", "hospital-a"], ["hospital-a", "hospital-z"])):
        made = lead.running(f"{run_name}-{number}")

        def spoil(answer: Any, names: list[str] = names) -> Any:
            del answer.contributors[:]
            answer.contributors.extend(names)
            return answer

        for server in lead.servers:
            server.change = spoil
        try:
            lead.opening.set()
            run = lead.process.runs.all[made.digest]
            until(lambda run=run: run.state is State.failed)  # type: ignore[misc]
            assert "which the run does not allow" in run.outcome
        finally:
            lead.opening.clear()
            for server in lead.servers:
                server.change = lambda answer: answer


def test_a_second_manifest_under_one_runs_name_is_refused(lead: Lead, running: Manifest) -> None:
    weaker = documents.manifest(run=running.run, **{"mechanism.noise_multiplier": 0.6})
    request = operator_pb2.SubmitRequest(manifest=weaker.canonical)
    assert refused(lambda: lead.operator.Submit(request, timeout=SECONDS)) == "failed_precondition"


def test_a_restored_coordinator_is_noticed_by_its_parties(lead: Lead, running: Manifest) -> None:
    """A party that has answered round 3 is told so, rather than asked for round 0 by an older state."""
    lead.stub().NextRound(asking(running), timeout=SECONDS)
    assert refused(lambda: lead.stub().NextRound(asking(running, 3), timeout=SECONDS)) == "contradiction"
