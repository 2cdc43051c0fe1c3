"""A newcomer's first day is as short as docs/experiments/first-day.md says; benchmarks/py counts it."""

import lzma
import re
from pathlib import Path

import pytest
from benchmarks.first_day import Day, after, halves

from tests.docs.loans import REAL, made_up_loans
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "experiments" / "first-day.md").read_text()


@pytest.mark.slow
def test_three_calls_no_failure_one_document(tmp_path: Path) -> None:
    """On the real table where it is; elsewhere on one that looks like it."""
    table, folder = tmp_path / "loans.csv", tmp_path / "day"
    folder.mkdir()
    if REAL.is_file():
        table.write_bytes(lzma.decompress(REAL.read_bytes()))
    else:
        made_up_loans(table, 2_000)
    day = Day(folder)
    halves(table, folder)
    after(day)
    assert day.failures == []
    found = re.search(r"^\| now \| (\d+) \| (\d+) \| (\d+) ", PAGE, re.MULTILINE)
    assert found
    assert (len(day.calls), len(day.failures), len(day.documents)) == tuple(map(int, found.groups())) == (3, 0, 1)
    assert {"model.npz", "card.json", "curve.png"} <= {path.name for path in folder.iterdir()}
