"""Answers that are kept until they are over."""

import stat
from pathlib import Path

import pytest

from parley.party.errors import OutboxError
from parley.party.outbox import Answer, Outbox

pytestmark = pytest.mark.usefixtures("verified_in_process")


def test_the_outbox_keeps_one_answer_per_round_and_erases_what_is_over(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    outbox = Outbox(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = Answer(
        round_index=3,
        query=b"q" * 32,
        upload=b"u" * 32,
        payload_a=b"BLIND-AND-SHARE" * 10,
        payload_b=b"SEED-SEED" * 4,
    )
    outbox.put(b"m" * 32, first, None)
    for index in (3, 2, 0):
        with pytest.raises(OutboxError, match="is not after round 3"):
            outbox.put(
                b"m" * 32,
                Answer(round_index=index, query=b"x" * 32, upload=b"u" * 32, payload_a=b"", payload_b=b""),
                first,
            )
    first.acknowledged = True
    later = Answer(round_index=4, query=b"r" * 32, upload=b"v" * 32, payload_a=b"NEXT", payload_b=b"NEXT")
    outbox.put(b"m" * 32, later, first)
    held = Outbox(path).last(b"m" * 32)
    assert held is not None
    assert (held.round_index, held.payload_a) == (4, b"NEXT")
    outbox.finish(b"m" * 32, held)
    outbox.close()
    for file in tmp_path.iterdir():
        assert b"BLIND-AND-SHARE" not in file.read_bytes()
        assert b"SEED-SEED" not in file.read_bytes()
