"""What `--help` says: kept word for word, in the order of use, and never without an example."""

import subprocess
import sys

import pytest

from parley.cli.main import COMMANDS, NAMES
from parley.node.software import software_version, source_digest
from tests.cli.help_pages import FOLDER, all_commands, help_of, page_of, single_commands


@pytest.mark.parametrize("words", all_commands(), ids=" ".join)
def test_every_help_is_the_one_that_was_reviewed(words: tuple[str, ...]) -> None:
    """After a change that was meant: python -m tests.cli.help_pages, and read the difference."""
    assert help_of(words) == page_of(words).read_text(encoding="utf-8")


def test_no_page_is_left_of_a_command_that_is_gone() -> None:
    assert {page.name for page in FOLDER.iterdir()} == {page_of(words).name for words in all_commands()}


@pytest.mark.parametrize("words", list(single_commands()), ids=" ".join)
def test_every_command_shows_how_it_is_called(words: tuple[str, ...]) -> None:
    """A line that can be copied: the command's own name follows the word Example."""
    page = help_of(words)
    assert f"Example: parley {' '.join(words)}" in " ".join(page.split()), page


def test_commands_stand_in_the_order_of_use() -> None:
    page = help_of(())
    places = [page.index(f"─ {panel} ─") for panel in COMMANDS]
    assert places == sorted(places)
    shown = [line.split()[1] for line in page.splitlines() if line[:3] == "│ " + line[2:3].strip() and line[2] != "-"]
    assert shown == list(NAMES)


@pytest.mark.parametrize("word", ["--version", "version"])
def test_the_version_is_one_line(word: str) -> None:
    command = [sys.executable, "-P", "-m", "parley.cli.main", word]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"parley {software_version()}, source {source_digest()[:16]}\n"
