"""docs/api.md is what the docstrings say, every public name has an example, and every example runs."""

import doctest
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley import study
from tests.docs.pages import ROOT
from tools.api_page import PAGE, methods, page

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public() -> Iterator[tuple[str, object]]:
    """Each name, and each method of a class."""
    for name in study.__all__:
        found = getattr(study, name)
        yield name, found
        if isinstance(found, type):
            yield from ((f"{name}.{method}", made) for method, made in methods(found))


EXAMPLES = [(name, found) for name, found in public() if ">>> " in (getattr(found, "__doc__", None) or "")]


def test_the_page_is_what_the_docstrings_say() -> None:
    assert PAGE.read_text() == page(), "run `make api-page`"


def test_every_public_name_has_an_example() -> None:
    assert {name for name, _ in EXAMPLES if "." not in name} == set(study.__all__)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader tries them: the README's trial folder."""
    made = tmp_path_factory.mktemp("trial")
    for path in (
        ROOT / "examples/own-data/study.toml",
        *(ROOT / "deploy/parley/demo/data/heart_disease").glob("*.csv"),
    ):
        shutil.copy(path, made)
    return made


@pytest.mark.parametrize(("name", "found"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_gives_what_it_shows(
    name: str, found: object, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    text = getattr(found, "__doc__", None) or ""
    parsed = doctest.DocTestParser().get_doctest(text, {"study": study}, name, None, None)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    said: list[str] = []
    runner.run(parsed, out=said.append)
    assert (runner.failures, runner.tries) == (0, len(parsed.examples)), "".join(said)
