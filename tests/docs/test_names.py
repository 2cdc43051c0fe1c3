"""Every module, path and command that a page names is there."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from parley.cli.main import app
from tests.docs.pages import ROOT, Page, pages
from tests.test_house import TABLE, TOP

ROOTS = sorted(path.parent for path in ROOT.glob("*/parley") if path.is_dir())
DOTTED = re.compile(r"(?<![\w./@-])parley(?:\.[A-Za-z_]\w*)+")
OLD = re.compile(r"(?<![\w./-])(?:deploy|mpc)\.[a-z_]\w*")
LABELS = {"parley.mpc.v3", "parley.covert.v1", "parley.source"}
"""No modules: words of the wire and of the images; and a name that LIMITATIONS.md has from before a move."""
FOLDERS = "benchmarks|coordinator|deploy|docs|examples|federation|mpc|party|privacy|proto|study|tests"
PATH = re.compile(rf"(?<![\w./-])(?:{FOLDERS})/[\w./*-]*[\w*]")
NODE = re.compile(r"^(party|coordinator)/(hospital-\w+|[a-z]+)$")
"""A node's name in its certificate, such as party/va"""
MADE = {"deploy/federation"}
"""Written by a command, in no clone"""


def test_the_roots_are_the_packages_own() -> None:
    assert {path.name for path in ROOTS} >= {"privacy", "mpc", "party", "coordinator", "study", "deploy"}


@cache
def defined(path: Path) -> dict[str, set[str]]:
    """A module's names, each with the names inside it if it is a class."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = set(names(node.body))
        else:
            found |= {name: set() for name in names([node])}
    return found


def names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (each.id for each in node.targets if isinstance(each, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((each.asname or each.name) for each in node.names)
        elif isinstance(node, ast.If):  # under TYPE_CHECKING stand the names that a package looks up late
            yield from names(node.body)


def known(dotted: str) -> bool:
    """`parley.room.module`, or a name that one of them defines."""
    parts = dotted.split(".")
    for length in range(len(parts), 1, -1):
        for root in ROOTS:
            place, rest = root.joinpath(*parts[:length]), parts[length:]
            if place.is_dir() and not rest:
                return True
            file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            if file.is_file():
                inside = defined(file)
                return not rest or (rest[0] in inside and (len(rest) == 1 or rest[1] in inside[rest[0]]))
    return False


def there(name: str, beside: Path) -> bool:
    """In the repository or beside the page, as a file, a folder, a pattern, or a module without its ending."""
    return any(any(folder.glob(spelt)) for folder in (ROOT, beside) for spelt in (name, f"{name}.py"))


def unknown_names(page: Page) -> list[str]:
    dotted = [name for name in DOTTED.findall(page.text) if name not in LABELS]
    dotted = [name for name in dotted if not re.search(r"\.(sock|toml|sqlite|lock|service)$", name)]
    old = [name for code in page.inline_code for name in OLD.findall(code)]
    paths = [name.rstrip(".") for code in page.inline_code for name in PATH.findall(code) if not NODE.match(name)]
    run = [name for block in page.code_blocks for name in PATH.findall(block)]
    paths += [name for name in run if Path(name).suffix in (".py", ".sh")]
    gone = [name for name in paths if name not in MADE and not there(name, page.path.parent)]
    return [name for name in dotted if not known(name)] + old + gone


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_module_and_path_is_there(page: Page) -> None:
    assert unknown_names(page) == []


def test_the_table_of_rooms_is_the_one_that_the_house_keeps() -> None:
    """Every room of the tree is in docs/architecture.md, in its folder, with what it may import."""
    row = re.compile(r"^\| `(\w+)/parley/(\w+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
    found = row.findall((ROOT / "docs" / "architecture.md").read_text())
    assert {(root, room) for root, room, _ in found} == {
        (root.name, room.name) for root in ROOTS for room in (root / "parley").iterdir() if any(room.glob("*.py"))
    }
    wanted = {room: set(below.split()) for room, below in TABLE.items()} | {room: {"everything"} for room in TOP}
    assert {room: set(re.findall(r"\w+", below)) for _, room, below in found} == wanted


def commands(page: Page) -> Iterator[str]:
    for block in page.code_blocks:
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"[;&|(]\s+", line.strip().removeprefix("$ ")):
                if part.startswith("parley "):
                    yield part
    yield from (code for code in page.inline_code if code.startswith("parley "))


def problem(command: str) -> str | None:
    """What of a command line does not exist; alternatives are written a|b, values in capitals or as …"""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        words = list(lexer)[1:]
    except ValueError:
        words = command.split()[1:]
    at: list[Any] = [typer.main.get_command(app)]
    for word in words:
        if word.startswith("--"):
            if default := getattr(at[0], "default", None):  # its NODE is in capitals, or was not there
                at = [at[0].commands[default]]
            options = {name for each in at for parameter in each.params for name in parameter.opts}
            if word.rstrip(",.…").split("=")[0].split("|")[0] not in options | {"--help", "--version"}:
                return f"{command!r}: no option {word}"
        elif all(hasattr(each, "commands") for each in at) and re.match(r"[a-z]", word):
            alternatives = [each for each in re.split(r"[|,]", word) if each]
            if word not in at[0].commands and (default := getattr(at[0], "default", None)):
                at = [at[0].commands[default]]  # `parley report NODE`: the word is its argument
                continue
            following = [group.commands.get(name) for group in at for name in alternatives]
            if any(all(name not in group.commands for group in at) for name in alternatives):
                return f"{command!r}: no command {word}"
            at = [each for each in following if each is not None]
    return None


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_command_and_option_is_there(page: Page) -> None:
    assert [found for found in map(problem, commands(page)) if found] == []


def test_what_is_not_there_is_found() -> None:
    page = Page(ROOT / "README.md")
    page.__dict__["text"] = (
        "`parley.mpc.sampler` `parley.mpc.nothing` `parley.mpc.ring.nothing` `deploy/gone.py` `mpc/parley`\n"
    )
    assert unknown_names(page) == ["parley.mpc.nothing", "parley.mpc.ring.nothing", "deploy/gone.py"]
    assert problem("parley simulate RUN.toml --seeds 10") is None
    assert problem("parley party|aggregator withdraw NODE RUN --by WHO") is None
    assert problem("parley simulate RUN.toml --sedes 10") is not None
    assert problem("parley party dance NODE") is not None
