"""Lies under audit, counted over two processes: a few of each here and now, all of them in `make test-long`, and what
the last long run has written down.
"""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from parley.attacks.covert_counts import Size, counted, in_all, tables
from parley.attacks.covert_lies import BETS, CAUGHT, REFUSED
from parley.attacks.covert_trial import interval

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "experiments" / "covert-attacks.json"
EIGHTH = Fraction(1, 8)


def holds(found: dict[str, Any], size: Size) -> None:
    """Every sentence of the issue, on what was counted."""
    assert found["wrong"] == []
    assert {row["lie"] for row in found["caught"]} == set(CAUGHT)
    assert {row["lie"] for row in found["refused"]} == {*REFUSED, *BETS}
    for name, known in CAUGHT.items():
        rows = [row for row in found["caught"] if row["lie"] == name]
        assert len(rows) == (len(known.by) if size.batches > 1 else 1)
        assert sum(row["batches"] for row in rows) >= size.batches
    for row in found["caught"]:
        assert row["caught"] == row["audited"]
        low, high = interval(row["batches"], EIGHTH)
        assert low <= row["audited"] <= high
    assert all(row["convicted"] == 0 for part in ("caught", "refused", "accuses") for row in found[part])
    assert found["forged"]["convicting"] == []
    assert found["forged"]["files"] > 8 * 1000 // size.bytes
    honest = found["honest"]
    assert honest["batches"] >= size.honest
    assert min(honest[name] for name in ("restarts", "killed", "reconnects", "batches_at_1", "audits")) > 0
    assert in_all(found) == found["in_all"]


@pytest.mark.slow
def test_a_few_of_each_lie() -> None:
    size = Size(batches=1, sessions=1, honest=64, silences=6, bytes=5, kernels=1)
    holds(counted(size), size)


@pytest.mark.long
def test_four_hundred_of_each_lie_and_two_thousand_honest_batches() -> None:
    size = Size()
    holds(counted(size, print), size)


def test_what_was_counted_is_what_the_page_says() -> None:
    found = json.loads(FILE.read_text())
    holds(found, Size())
    assert tables(found) in FILE.with_suffix(".md").read_text()
