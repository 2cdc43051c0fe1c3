"""The process: what it tells of itself, and that it goes on where it was."""

import json
from pathlib import Path

import pytest
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


@pytest.mark.slow
def test_a_proposal_is_verified_apart_and_admitted_by_policy(servers: Federation) -> None:
    manifest = documents.manifest(run="proposed", **{"mechanism.steps": 3, "privacy.epsilon": 6.0})
    seen = set[bool]()

    def admitted() -> bool:
        answers = [servers.propose(role, manifest) for role in (0, 1)]
        seen.update(answer.pending for answer in answers)
        assert all(answer.admitted or answer.pending for answer in answers), answers
        return all(answer.admitted for answer in answers)

    until(admitted)
    assert seen == {True, False}
    servers.upload_all(contributions(manifest, 0))
    assert is_noised(manifest, 0, servers.open(manifest, 0), 6.0)


@pytest.mark.slow
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


class Telling(Federation):
    """Whose server A has a [notify]."""

    def configure(self, role: int, path: Path, peer: int = 0) -> None:
        super().configure(role, path, peer)
        toml = path / "node.toml"
        if role == 0:
            toml.write_text(f'{toml.read_text()}\n[notify]\ncommand = ["{self.folder / "tell"}"]\n')


@pytest.mark.slow
def test_a_run_that_waits_for_this_server_s_operator_is_told_by_its_command(tmp_path: Path) -> None:
    told, tell = tmp_path / "told", tmp_path / "tell"
    tell.write_text(f"#!/bin/sh\ncat >> '{told}'\n")
    tell.chmod(0o700)
    federation = Telling(tmp_path)
    try:
        federation.start()
        manifest = documents.manifest(run="crowded", **{"privacy.epsilon": 6.0})
        policy = federation.servers[0].path / "policy.toml"
        policy.write_text(policy.read_text().replace("minimum_parties = 2", "minimum_parties = 9"))
        for _ in range(5):  # a coordinator asks again and again
            assert federation.propose(0, manifest).pending
        until(lambda: told.exists() and told.read_text().endswith("\n"))
        (line,) = told.read_text().splitlines()
        body = json.loads(line)
        assert body["node"] == "parley://cardio/aggregator/north"
        (each,) = body["waiting"]
        assert (each["what"], each["run"], each["digest"]) == ("approval", "crowded", manifest.digest.hex())
        assert "minimum" not in line
    finally:
        federation.close()
