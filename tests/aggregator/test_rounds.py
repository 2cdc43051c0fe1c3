"""Openings by two real server processes: sums with noise, replays, drop-outs, several runs, the end."""

import pytest

from parley.node.endings import verify_ends
from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.rounds_of_servers import STATE
from tests.support.servers import Federation, contributions, is_noised, value_of


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


@pytest.mark.slow
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
