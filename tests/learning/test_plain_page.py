"""Words are words in both forms, whoever wrote them."""

import re
from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from parley.learning.plain_page import Page, Points, Quote, Table, text

HOSTILE = (
    "<script>alert(1)</script> [a](javascript:b) ![c](http://d) `e` **f** | g | <!-- h --> &lt; $i$ https://j www.k.l"
)
words = st.one_of(
    st.text(min_size=1, max_size=40),
    st.lists(st.sampled_from([*"<>&\"'`*_{}[]()#+-.!|~=:$@1a \\\n", "1.", "- ", "://", "www.", "---"]), min_size=1).map(
        "".join
    ),
).map(text)


class Reader(HTMLParser):
    """Elements and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "wbr":
            self.elements.append(tag)
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(page: str) -> tuple[list[str], str]:
    reader = Reader()
    reader.feed(page)
    return reader.elements, "".join(reader.words)


def sample(word: str) -> Page:
    page = Page(word, word, word)
    page.sections = [
        (word, [word, Quote(word), Points((word, word)), Table((word, word), [(word, word), (word, "x")])])
    ]
    return page


def flat(line: str) -> str:
    return re.sub(r"\s+", "", line)


PLAIN = sample("plain")


@given(words)
@example(HOSTILE)
@example("1. a list")
@example("- a list")
@example("--- a line")
@example("    code")
@example("===")
@example("+ a list")
@example("x" * 100)
def test_no_word_adds_an_element_and_every_word_is_read_as_it_was_written(word: str) -> None:
    page = sample(word)
    elements, said = read(page.html())
    assert elements == read(PLAIN.html())[0]
    assert flat(said).count(flat(word)) >= 10
    made = MarkdownIt("commonmark").enable("table").render(page.markdown())
    elements, said = read(made)
    assert elements == read(MarkdownIt("commonmark").enable("table").render(PLAIN.markdown()))[0]
    assert flat(said).count(flat(word)) >= 10


def test_a_page_of_html_asks_for_nothing_and_runs_nothing() -> None:
    made = sample(HOSTILE).html()
    elements, _ = read(made)
    assert set(elements).isdisjoint({"script", "img", "link", "iframe", "a", "form", "object"})
    assert "default-src 'none'" in made
    assert " on" not in re.sub(r">[^<]*<", "><", made[made.index("<body>") :])


def test_text_is_one_short_printable_line() -> None:
    assert text(None) == text("") == text(" \n") == "–"
    assert text("a\nb\tc\x00d\u202ee") == "a b c�d�e"
    assert len(text("x" * 10_000)) == 600
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert text(deep) == "…"
    while deep:
        deep = deep[0]  # type: ignore[assignment]  # unwound by hand: its own end would recurse
