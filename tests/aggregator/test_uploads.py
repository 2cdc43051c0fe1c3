"""Uploads: early, in pieces, at one server only."""

import pytest

from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.rounds_of_servers import STATE
from tests.support.servers import Federation, contributions, is_noised


@pytest.mark.slow
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


@pytest.mark.slow
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
