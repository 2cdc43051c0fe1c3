"""The example of docs/report.md: it still verifies, which it would not if a page were drawn otherwise."""

from pathlib import Path

import pytest

from parley.report.check import opened, verified
from parley.report.content import LAYOUT

FOLDER = Path(__file__).parents[2] / "docs" / "report"
PIN = "SHA-256:b31e4696a9c5041069e49987a698f405ba4e43b73ea59f369db5b71253e67ba9"


@pytest.mark.parametrize("form", ["html", "json"])
def test_the_example_is_drawn_to_the_byte_as_when_it_was_signed(form: str) -> None:
    """A word or a colour that is changed without counting the layout up would call every older report altered."""
    found = verified((FOLDER / f"cleveland.{form}").read_bytes())
    assert found.report.content["layout"] == LAYOUT
    assert found.what[0] == f"the content is signed by {PIN}"


def test_the_three_forms_hold_one_content() -> None:
    """The PDF's pages are compared where its versions of fpdf2 and of the letters are: tests/report/test_pdf.py."""
    found = [opened((FOLDER / f"cleveland.{form}").read_bytes()) for form in ("html", "json", "pdf")]
    assert [form for form, _ in found] == ["html", "json", "pdf"]
    assert len({report.text for _, report in found}) == 1


def test_the_pictures_are_of_its_two_pages() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.png")) == ["cleveland-1.png", "cleveland-2.png"]
