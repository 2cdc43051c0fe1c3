"""Runs of a server: several at once, withdrawn, ended."""

import time
from concurrent import futures

import grpc
import pytest

from parley.aggregator.opening_store import OpeningStore
from parley.federation.admission import AdmissionRecord
from parley.federation.manifest import Manifest
from parley.node.endings import verify_ends
from parley.node.refusals import refusal_in
from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.rounds_of_servers import STATE
from tests.support.servers import Federation, contributions, is_noised


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
@pytest.mark.slow
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
