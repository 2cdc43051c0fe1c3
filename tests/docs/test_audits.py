"""What audits are worth is said in one wording, wherever it is said."""

import re

import pytest

from parley.mpc.parts import worth_of_audits
from tests.docs.pages import ROOT, pages

CLAIM = worth_of_audits("1/8").partition(": ")[2]
SAYING = ("README.md", "docs/privacy.md")


def plain(text: str) -> str:
    """As one line, without the marks of a quotation."""
    return " ".join(re.sub(r"^> ", "", text, flags=re.MULTILINE).split())


@pytest.mark.parametrize("name", SAYING)
def test_these_pages_say_it_word_for_word(name: str) -> None:
    text = plain((ROOT / name).read_text())
    assert CLAIM in text
    assert "no single round" in text


def test_no_page_says_it_otherwise() -> None:
    for page in pages():
        text = plain(page.text)
        assert text.count("stay unseen with probability") == text.count(CLAIM), page.name
