"""Openings by two real server processes: sums with noise, replays, drop-outs, several runs, the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from parley.federation.endings import verify_ends
from parley.v1 import aggregator_pb2 as wire

from tests.federation import documents
from tests.federation.servers import Federation, contributions, is_noised, value_of

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
    ends = servers.end(manifest)
    assert verify_ends(ends, manifest, servers.identities["lead"].authority) == 3
    refused = servers.open(manifest, 3)
    assert [answer.name for answer in refused] == ["too_late"] * 2
    assert servers.end(manifest)[0].openings == 3
