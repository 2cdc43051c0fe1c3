"""The HTML form: nothing in it runs, asks anybody or is a mark of a stranger's; and it is two pages on paper."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from parley.report.page import POLICY, page
from tests.support.chromium import PATH, chromium, violations
from tests.support.documents import meaning
from tests.support.reports import PEOPLE, budget, content, facts, report, run

HOSTILE = '"><script>alert(1)</script><img src=http://example.org/x onerror=alert(1)>&amp;</main>'
MANY = {
    f"parties.{place}": {
        "name": f"hospital-{place}",
        "sampler": {"kind": "wor", "units": 300, "batch": 15},
        "legal_entity": f"University Hospital of the Town of {place}",
        "contact": f"data-protection@hospital-{place}.example",
    }
    for place in range(3)
}


class Marks(HTMLParser):
    """Every tag and attribute that a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_no_word_of_a_stranger_is_a_mark(tmp_path: Path) -> None:
    said = dict.fromkeys(("purpose", "legal_basis", "ethics_number", "retention"), HOSTILE)
    claim = meaning(legal=said, **{"parties.0.legal_entity": HOSTILE, "coordinator.contact": HOSTILE})
    runs = [run(name=HOSTILE)]
    found = facts(claim, reason=HOSTILE, state=HOSTILE, budgets=(budget(*runs, population=HOSTILE),))
    plain, hostile = Marks(page(report(tmp_path))), Marks(page(report(tmp_path, found)))
    assert hostile.tags == plain.tags
    assert hostile.attributes == plain.attributes
    assert not {"script", "img", "link", "a", "iframe", "form"} & hostile.tags


def test_it_asks_nobody_and_runs_nothing(tmp_path: Path) -> None:
    text = page(report(tmp_path))
    assert POLICY == "default-src 'none'; style-src 'unsafe-inline'"
    assert f'content="{POLICY}"' in text
    assert not re.search(r"url\(|@import|src=|href=|<script|https?:", re.sub(r'content="[^"]*"', "", text))


def test_the_same_content_is_the_same_page(tmp_path: Path) -> None:
    made = report(tmp_path)
    assert page(made) == page(made)


def test_it_says_everything_in_the_order_in_which_an_officer_asks(tmp_path: Path) -> None:
    text = page(report(tmp_path))
    headings = re.findall("<h2>(.*?)</h2>", text)
    assert headings == [
        "What is guaranteed", "What it was for", "Who took part", "What left this site in this run",
        "Budget over all runs", "What is not promised", "To check it",
    ]  # fmt: skip
    for word in (
        "St. Anna Hospital, privacy@anna.example", "EK 2026-114", "Art. 9(2)(j) GDPR", "2999-12-31", "ten years",
        "catheter", "1,234", "not counted", "2026-11-01", "2026-11-02", "Dr. Ada Osei", "over 1 objections",
        "ε = 1.78 at δ = 0.00001", "ε₂ = 4.2", "North Trust", "40 sums opened", "up to round 40",
    ):  # fmt: skip
        assert word in text, word
    for digest in (content(tmp_path)["run"]["manifest_digest"], "ab" * 32, "12" * 32):
        assert digest in text.replace("<wbr>", "")


@pytest.mark.skipif(PATH is None, reason="there is no Chromium")
def test_it_is_two_pages_of_a4_at_most_and_fits_a_telephone_in_both_themes(tmp_path: Path) -> None:
    claim = meaning(**{**PEOPLE, **MANY})
    full = facts(claim, budgets=(budget(*(run(f"a-longer-name-of-a-run-{index}") for index in range(30))),))
    with chromium() as browser:
        for name, made in (("usual", report(tmp_path)), ("full", report(tmp_path, full))):
            file = tmp_path / f"{name}.html"
            file.write_text(page(made))
            tab = browser.new_page()
            tab.goto(file.as_uri())
            printed = tab.pdf(prefer_css_page_size=True)
            assert len(re.findall(rb"/Type\s*/Page\b", printed)) <= 2
            for theme in ("light", "dark"):
                for width in (1400, 400):
                    tab.emulate_media(color_scheme=theme)
                    tab.set_viewport_size({"width": width, "height": 900})
                    assert tab.evaluate("document.documentElement.scrollWidth") <= width
                    assert violations(tab) == []
