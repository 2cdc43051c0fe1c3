"""Every relative link of every page leads to a file that is there, and to a heading that is in it."""

import re

import pytest

from tests.docs.pages import INLINE, ROOT, Page, pages

LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
SOURCE = re.compile(r"(?:src|srcset|href)=\"([^\"]+)\"")


def anchors(page: Page) -> set[str]:
    """Headings as GitHub names them: lower case, punctuation left out, blanks as hyphens, repetitions numbered."""
    found: set[str] = set()
    for heading in HEADING.findall(page.prose):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        repeated, number = slug, 0
        while repeated in found:
            number += 1
            repeated = f"{slug}-{number}"
        found.add(repeated)
    return found


def broken(page: Page) -> list[str]:
    prose = INLINE.sub("", page.prose)
    wrong = []
    for target in LINK.findall(prose) + SOURCE.findall(prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.path.parent / path).resolve() if path else page.path
        if (
            not file.exists()
            or ROOT not in (file, *file.parents)
            or (anchor and (file.suffix != ".md" or anchor not in anchors(Page(file) if path else page)))
        ):
            wrong.append(target)
    return wrong


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Page) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found() -> None:
    page = Page(ROOT / "docs" / "README.md")
    page.__dict__["text"] = (
        "# One\n\n[a](nowhere.md) [b](#one) [c](#two) [d](privacy.md#no-such-heading) `[e](no.md)`\n"
    )
    assert broken(page) == ["nowhere.md", "#two", "privacy.md#no-such-heading"]


def test_every_page_of_docs_is_in_the_index() -> None:
    """A page that no index names is read by nobody."""
    folder = ROOT / "docs"
    indices = {folder: folder / "README.md", folder / "decisions": folder / "decisions" / "README.md"}
    for where, index in indices.items():
        linked = {target.partition("#")[0] for target in LINK.findall(index.read_text())}
        assert {path.name for path in where.glob("*.md")} - {"README.md"} <= linked, index
