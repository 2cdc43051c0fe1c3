"""All 45 stumbles of a first day are answered, and what holds each of them is there."""

import re

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "decisions" / "first-day.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if re.match(r"\| \d+ \|", line)
]


def test_every_stumble_is_answered() -> None:
    assert sorted({int(row[0]) for row in ROWS}) == list(range(1, 46))
    assert all(len(row) == 4 and all(row) for row in ROWS)


def test_each_has_a_test_that_is_there_or_says_why_it_is_not_mended() -> None:
    for number, stumble, now, held in ROWS:
        tests = re.findall(r"`(tests/[^`]+)`", held)
        assert tests or (held == "–" and now.startswith("not mended: ")), (number, stumble)
        for each in tests:
            assert (ROOT / each).is_file(), each
