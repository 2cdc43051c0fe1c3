"""The process: what it tells of itself, and that it goes on where it was."""

import time
from pathlib import Path

from grpc_health.v1 import health_pb2, health_pb2_grpc

from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.servers import Federation, contributions, is_noised
from tests.support.until import GIVE_UP_SECONDS, until


def test_status_tells_public_facts_and_health_serves_on_every_port(servers: Federation) -> None:
    servers.admit(documents.manifest(run="told"))  # whose parties may call
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
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=GIVE_UP_SECONDS).status == 1


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
