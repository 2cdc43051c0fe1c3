"""A node is its folder, in every command; what scripts of before say goes on working, and no page of help names it."""

from pathlib import Path

import pytest
import typer

from parley.cli.commands.ledger import ledger_of
from parley.cli.console import CommandError
from parley.cli.main import app
from parley.cli.options import identity_folder, one_of
from tests.support.command import answer, typed
from tests.support.pinned import NORTH, PARTY

HIDDEN = {
    **dict.fromkeys(("node request", "node install", "node renew", "node rotate", "node show"), "--folder"),
    **dict.fromkeys(("pin add", "pin accept", "pin remove", "pin list"), "--folder"),
    "party check": "--run",
    "status": "--node",
}
"""What each of them was told before, and still takes."""


@pytest.mark.parametrize("words", HIDDEN)
def test_the_old_spelling_is_taken_and_not_shown(words: str) -> None:
    command = typer.main.get_command(app)
    for word in words.split():
        command = command.commands[word]  # type: ignore[attr-defined]
    (old,) = [each for each in command.params if HIDDEN[words] in each.opts]
    assert old.hidden  # type: ignore[attr-defined]
    places = [each.metavar for each in command.params if not getattr(each, "hidden", False)]
    assert "NODE" in places


def test_both_spellings_mean_the_same_folder(tmp_path: Path) -> None:
    home = tmp_path / "hospital-a"
    asked = answer(typed("", "node", "request", PARTY.uri, "--node", str(home), "--json"))
    assert Path(asked["request"]).is_relative_to(home / "identity")
    shown = [
        typed("", "node", "show", *words, "--json") for words in ([str(home)], ["--folder", str(home / "identity")])
    ]
    assert {answer(each)["fingerprint"] for each in shown} == {asked["fingerprint"]}
    assert typed("", "pin", "list", str(home)).returncode == 0
    both = typed("", "node", "show", str(home), "--folder", "x")
    assert (both.returncode, "give NODE, the folder with node.toml, alone" in both.stderr) == (2, True)
    removed = [
        typed("", "pin", "remove", NORTH.uri, where, path).stderr
        for where, path in (("--node", str(home)), ("--folder", str(home / "identity")))
    ]
    assert removed[0] == removed[1] != ""


def test_what_is_said_twice_or_not_at_all_is_refused() -> None:
    assert one_of("a", None, "RUN") == one_of(None, "a", "RUN") == "a"
    for now, before in ((None, None), ("a", "b")):
        with pytest.raises(CommandError, match="give it once, as an argument"):
            one_of(now, before, "RUN")
    assert identity_folder(Path("a"), None) == Path("a/identity")
    assert identity_folder(None, Path("b")) == Path("b")
    assert identity_folder(None, None) == Path("node")


def test_a_ledger_is_found_by_its_node(tmp_path: Path) -> None:
    assert ledger_of(tmp_path) == tmp_path / "state" / "ledger.sqlite"
    file = tmp_path / "party.ledger"
    assert ledger_of(file) == file
