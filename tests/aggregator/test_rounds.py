"""Openings by two real server processes: sums with noise, replays, drop-outs, several runs, the end."""

import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from parley.aggregator.opening_store import OpeningStore
from parley.federation.admission import AdmissionRecord
from parley.federation.manifest import Manifest
from parley.node.endings import verify_ends
from parley.node.refusals import refusal_in
from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.servers import Federation, contributions, is_noised, value_of
from tests.support.until import until

STATE = wire.OpenResponse


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    federation = Federation(tmp_path_factory.mktemp("servers"))
    federation.start()
    yield federation
    federation.close()


def test_rounds_open_to_the_sum_plus_noise_and_replay_the_same_bytes(servers: Federation) -> None:
    manifest = documents.manifest(run="honest")
    servers.admit(manifest)
    noises = []
    for index in range(3):
        servers.upload_all(contributions(manifest, index))
        answers = servers.open(manifest, index)
        assert [answer.state for answer in answers] == [STATE.STATE_OPENED] * 2, answers
        assert answers[0].opening == answers[1].opening
        assert set(answers[0].contributors) == set(manifest.parties)
        assert is_noised(manifest, index, answers, 6.0)
        noises.append(value_of(manifest, index, answers) - 6.0)
        again = servers.open(manifest, index)
        assert [answer.share for answer in again] == [answer.share for answer in answers]
    assert len({tuple(noise) for noise in noises}) == 3
    # Whoever opened round 2 has had rounds 0 and 1: the newest one before is kept to be sent again, no other.
    assert [answer.name for answer in servers.open(manifest, 0)] == ["too_late"] * 2
    assert [answer.state for answer in servers.open(manifest, 1)] == [STATE.STATE_OPENED] * 2
    ends = servers.end(manifest)
    assert verify_ends(ends, manifest, servers.authority.pins) == 3
    assert [answer.name for answer in servers.open(manifest, 1)] == ["too_late"] * 2
    assert [answer.state for answer in servers.open(manifest, 2)] == [STATE.STATE_OPENED] * 2
    refused = servers.open(manifest, 3)
    assert [answer.name for answer in refused] == ["too_late"] * 2
    assert servers.end(manifest)[0].openings == 3


def test_a_run_that_was_withdrawn_opens_nothing_more_and_still_ends(servers: Federation) -> None:
    manifest = documents.manifest(run="withdrawn")
    servers.admit(manifest)
    servers.upload_all(contributions(manifest, 0))
    assert is_noised(manifest, 0, servers.open(manifest, 0), 6.0)
    record = AdmissionRecord(servers.servers[1].path / "state" / "admissions.sqlite")
    record.withdraw(manifest.digest)
    record.close()
    next_one = contributions(manifest, 1)
    assert servers.upload(0, next_one[0]).complete
    with pytest.raises(grpc.RpcError) as refused:
        servers.upload(1, next_one[0])
    refusal = refusal_in(refused.value)
    assert refusal is not None
    assert refusal.name == "not_admitted"
    (answer,) = servers.open(manifest, 1, roles=[1])
    assert answer.name == "not_admitted"
    assert verify_ends(servers.end(manifest), manifest, servers.authority.pins) == 1


@pytest.mark.parametrize("role", [0, 1], ids=["A", "B"])
def test_a_run_that_is_withdrawn_while_an_opening_waits_is_not_opened(servers: Federation, role: int) -> None:
    manifest = documents.manifest(run=f"withdrawn-meanwhile-{role}")
    servers.admit(manifest)
    made = contributions(manifest, 0)
    servers.upload_all(made, [0])
    servers.upload_all(made[1:], [1])
    with futures.ThreadPoolExecutor(1) as beside:
        asked = beside.submit(servers.open, manifest, 0, 4.0, wait_seconds=0.5)
        time.sleep(0.7)  # A has dialled and waits for B, which waits for one half
        record = AdmissionRecord(servers.servers[role].path / "state" / "admissions.sqlite")
        record.withdraw(manifest.digest)
        record.close()
        if role == 0:
            servers.upload_all(made[:1], [1])
        answers = asked.result()
    assert STATE.STATE_OPENED not in [getattr(answer, "state", None) for answer in answers], answers
    for server in servers.servers:
        store = OpeningStore(server.path / "state" / "openings.sqlite")
        assert store.counts(manifest.run).mine == 0
        store.close()


def test_several_runs_open_at_once_and_an_ended_one_takes_nothing(servers: Federation) -> None:
    manifests = [documents.manifest(run=f"together-{i}") for i in range(3)]
    for manifest in manifests:
        servers.admit(manifest)

    def rounds(manifest: Manifest) -> list[bytes]:
        openings = []
        for index in range(4):
            servers.upload_all(contributions(manifest, index))
            answers = servers.open(manifest, index)
            assert is_noised(manifest, index, answers, 6.0), answers
            openings.append(answers[0].opening)
        return openings

    with futures.ThreadPoolExecutor(3) as pool:
        found = list(pool.map(rounds, manifests))
    assert len({opening for each in found for opening in each}) == 12
    assert [end.openings for end in servers.end(manifests[0])] == [4, 4]
    answer = servers.upload(0, contributions(manifests[0], 4)[0])
    assert answer.rejection == wire.UploadResponse.REJECTION_TOO_LATE


def test_a_round_goes_on_without_who_is_missing_and_names_them(servers: Federation) -> None:
    manifest = documents.manifest(run="dropout", **{"rounds.deadline_seconds": 1.5})
    servers.admit(manifest)
    servers.upload_all(contributions(manifest, 0, ["hospital-a"]))
    short = servers.open(manifest, 0)
    assert [answer.state for answer in short] == [STATE.STATE_SHORT] * 2, short
    assert all(list(answer.missing) == ["hospital-b", "hospital-c"] for answer in short)
    servers.upload_all(contributions(manifest, 0, ["hospital-c"]))
    answers = servers.open(manifest, 0)  # from a new deadline on
    assert all(list(answer.missing) == ["hospital-b"] for answer in answers), answers
    assert all(list(answer.contributors) == ["hospital-a", "hospital-c"] for answer in answers)
    assert is_noised(manifest, 0, answers, 4.0)
    assert answers[0].waited_seconds > 1
    late = servers.upload(0, contributions(manifest, 0, ["hospital-b"])[0])
    assert late.rejection == wire.UploadResponse.REJECTION_TOO_LATE


def test_parties_that_reached_only_one_server_do_not_count(servers: Federation) -> None:
    manifest = documents.manifest(run="halves", **{"rounds.deadline_seconds": 1.5})
    servers.admit(manifest)
    a, b, c = contributions(manifest, 0)
    servers.upload_all([a])
    servers.upload_all([b], [0])
    servers.upload_all([c], [1])
    short = servers.open(manifest, 0)
    assert [answer.state for answer in short] == [STATE.STATE_SHORT] * 2, short
    assert "hospital-c" in short[0].missing
    assert "hospital-b" in short[1].missing
    servers.upload_all([b], [1])
    answers = servers.open(manifest, 0)
    assert list(answers[0].contributors) == ["hospital-a", "hospital-b"]
    assert is_noised(manifest, 0, answers, 3.0)


def test_uploads_may_come_before_the_round_is_asked_for_and_in_pieces(servers: Federation) -> None:
    manifest = documents.manifest(run="pieces", **{"model.dimension": 1000})
    servers.admit(manifest)
    made = contributions(manifest, 0)
    for each in made:
        payload = each.payloads[0]
        for start in range(0, len(payload), 3000):
            answer = servers.upload(0, each, offset=start, data=payload[start : start + 3000])
            assert answer.received == min(start + 3000, len(payload))
            skipped = servers.upload(0, each, offset=answer.received + 8, data=b"x") if not answer.complete else answer
            assert skipped.received == answer.received  # a gap is not filled; the answer says where to go on
            again = servers.upload(0, each, offset=start, data=payload[start : start + 3000])
            assert (again.received, again.rejection) == (answer.received, 0)
        servers.upload_all([each], [1])
    assert is_noised(manifest, 0, servers.open(manifest, 0), 6.0)


def test_a_share_over_one_mebibyte_is_fetched_in_pieces(servers: Federation) -> None:
    length = 140_000
    manifest = documents.manifest(run="large", **{"model.dimension": length, "noise.precision": "standard"})
    servers.admit(manifest)
    for each in contributions(manifest, 0):
        payload = each.payloads[0]
        for start in range(0, len(payload), 1 << 20):
            answer = servers.upload(0, each, offset=start, data=payload[start : start + (1 << 20)])
        assert answer.complete
        servers.upload_all([each], [1])
    answers = servers.open(manifest, 0, 60)
    for role, answer in enumerate(answers):
        assert answer.size == 8 * length
        fetch = wire.FetchShareRequest(manifest_digest=manifest.digest, round=0, offset=len(answer.share))
        answer.share += servers.control(role).FetchShare(fetch).data
        assert len(answer.share) == answer.size
    assert is_noised(manifest, 0, answers, 6.0)


def test_status_tells_public_facts_and_health_serves_on_every_port(servers: Federation) -> None:
    until(lambda: servers.control(0).Status(wire.StatusRequest()).pool_available)
    status = servers.control(0).Status(wire.StatusRequest())
    assert status.version
    assert 0 < status.pool_available <= status.pool_capacity
    for role, port, who in (
        (0, "share", "hospital-a"),
        (1, "control", "lead"),
        (1, "peer", "north"),
    ):  # each port is its callers'
        stub = health_pb2_grpc.HealthStub(servers.channel(who, role, port))
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status == 1


def test_a_proposal_is_verified_apart_and_admitted_by_policy(servers: Federation) -> None:
    manifest = documents.manifest(run="proposed", **{"mechanism.steps": 3, "privacy.epsilon": 6.0})
    seen = set()
    for _ in range(200):
        answers = [servers.propose(role, manifest) for role in (0, 1)]
        seen |= {answer.pending for answer in answers}
        if all(answer.admitted for answer in answers):
            break
        assert all(answer.admitted or answer.pending for answer in answers), answers
        time.sleep(0.2)
    assert all(answer.admitted for answer in answers), answers
    assert seen == {True, False}
    servers.upload_all(contributions(manifest, 0))
    assert is_noised(manifest, 0, servers.open(manifest, 0), 6.0)


def test_a_stop_and_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    try:
        manifest = documents.manifest(run="restart")
        federation.admit(manifest)
        federation.start()
        for role in (0, 1):
            federation.propose(role, manifest)
        federation.upload_all(contributions(manifest, 0))
        first = federation.open(manifest, 0)
        for server in federation.servers:
            assert server.stop() == 0
        federation.start()  # B first: its peer port has not changed
        assert [answer.share for answer in federation.open(manifest, 0)] == [answer.share for answer in first]
        federation.upload_all(contributions(manifest, 1))
        assert is_noised(manifest, 1, federation.open(manifest, 1), 6.0)
        log = "".join((server.path / "log").read_text() for server in federation.servers)
        assert "Traceback" not in log, log
    finally:
        federation.close()
