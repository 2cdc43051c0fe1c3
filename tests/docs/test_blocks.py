"""Every block of Python and shell on a data scientist's pages runs, or says why not."""

from pathlib import Path

import pytest

from tests.docs.blocks import RUN, blocks, run, unsaid
from tests.docs.pages import ROOT, Page, pages

WALKED = [
    "README.md",
    *(f"docs/{name}.md" for name in ["study", "estimators", "schema", "model-file", "data", "install"]),
]
"""All their code is in fences with a language."""
TYPED = ["deploy/parley/cli/study_readme.md"]
"""What `parley init` makes of it is typed word for word by tests/bench/test_operator_day.py."""


def page(text: str) -> Page:
    made = Page(ROOT / "README.md")
    made.__dict__["text"] = text
    return made


def walked() -> list[Page]:
    return [Page(ROOT / name) for name in WALKED]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.name == "README.md" else pytest.mark.slow) for page in walked()],
    ids=lambda page: page.name,
)
def test_every_block_runs(page: Page, tmp_path: Path) -> None:
    assert run(page, tmp_path, slow=False) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in walked() if any(each.word == "slow" for each in blocks(page))],
    ids=lambda page: page.name,
)
def test_every_block_runs_also_the_slow_ones(page: Page, tmp_path: Path) -> None:
    assert run(page, tmp_path, slow=True) == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_block_that_is_not_run_says_why(page: Page) -> None:
    said = [each for each in blocks(page) if each.language in RUN]
    if page.name in WALKED:
        assert unsaid(page) == []
        indented = [block for block in page.code_blocks if block.startswith("    ")]
        assert indented == [], "code stands in a fence with its language"
    else:
        assert page.name in TYPED or [each.place for each in said if each.word not in ("not run", "run by")] == []


def test_a_block_that_goes_wrong_is_found(tmp_path: Path) -> None:
    for number, (text, wrong) in enumerate(
        {
            "```python\na = 1\n```\n\n```python\nassert a == 1\n```\n": "",
            "```python\na = 1\n```\n\n```python\nassert a == 2\n```\n": "README.md:5",
            "```sh\ncd examples\n```\n```sh\nls README.md\n```\n": "",
            "```sh\nfalse\ntrue\n```\n": "README.md:1",
            "<!-- fails: division -->\n```python\n1 / 0\n```\n": "",
            "<!-- fails: division -->\n```python\n1 / 1\n```\n": "did not fail",
            "```sh\necho one two; echo three\n```\n<!-- prints -->\n```text\none … two\nthree\n```\n": "",
            "```sh\necho three; echo one\n```\n<!-- prints -->\n```text\none\nthree\n```\n": "'three'",
            "<!-- saved as: a.toml -->\n```toml\na = 1\n```\n```sh\ngrep 1 a.toml\n```\n": "",
            "```toml\na = \n```\n": "README.md:1",
            "<!-- first, in python:\nb = 2\n-->\n```python\nassert b == 2\n```\n": "",
            "<!-- not run: it needs a telephone -->\n```sh\nfalse\n```\n": "",
            "<!-- slow -->\n```sh\nfalse\n```\n": "",
            "<!-- not run: it needs a telephone -->\nAnd then:\n```sh\nfalse\n```\n": "README.md:3",
            "```sh\npwd; test -f study.toml; test -f cleveland.csv\n```\n": "",
        }.items()
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = run(page(text), folder, slow=False)
        assert bool(found) == bool(wrong), (text, found)
        assert wrong in "".join(found)


def test_what_is_not_said_is_found() -> None:
    for text in (
        "```\na\n```\n",
        "<!-- not run: no -->\n```sh\na\n```\n",
        "<!-- run by: tests/docs/nothing.py -->\n```sh\na\n```\n",
        "<!-- prints -->\n```python\na\n```\n",
    ):
        assert len(unsaid(page(text))) == 1, text
    assert unsaid(page("<!-- run by: tests/docs/test_readme.py -->\n```sh\na\n```\n")) == []
