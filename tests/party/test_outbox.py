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
    first = Answer(3, b"q" * 32, b"u" * 32, b"BLIND-AND-SHARE" * 10, b"SEED-SEED" * 4)
    outbox.put(b"m" * 32, first, None)
    for index in (3, 2, 0):
        with pytest.raises(OutboxError, match="is not after round 3"):
            outbox.put(b"m" * 32, Answer(index, b"x" * 32, b"u" * 32, b"", b""), first)
    first.acknowledged = True
    outbox.put(b"m" * 32, Answer(4, b"r" * 32, b"v" * 32, b"NEXT", b"NEXT"), first)
    held = Outbox(path).last(b"m" * 32)
    assert held is not None
    assert (held.round_index, held.payload_a) == (4, b"NEXT")
    outbox.finish(b"m" * 32, held)
    outbox.close()
    for file in tmp_path.iterdir():
        assert b"BLIND-AND-SHARE" not in file.read_bytes()
        assert b"SEED-SEED" not in file.read_bytes()
