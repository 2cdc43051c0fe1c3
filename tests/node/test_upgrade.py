"""A node's files are upgraded on a copy first, by steps that can be killed, and never back over what was spent."""

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from parley.cli.commands.upgrade import openers
from parley.federation.names import Role
from parley.node import upgrade
from parley.node.alone import alone, only_one
from parley.node.backup import LEDGER
from parley.node.backup_copy import copy_database
from parley.node.backup_key import BackupError
from parley.node.node_file import AnyNode, read_node
from parley.node.upgrade import BEFORE, CHECK, UpgradeError, carry_out, changes, forget, rehearse, undo
from parley.privacy.layouts import ALL, OUTBOX, LayoutError
from parley.privacy.ledger import Ledger
from tests.support.command import answer, parley
from tests.support.documents import manifest
from tests.support.old_nodes import unpack
from tests.support.pinned import NODE

STEPS = ("ledger.sqlite", "admissions.sqlite", "outbox.sqlite")


@pytest.fixture
def node(tmp_path: Path) -> AnyNode:
    """A party as the code before numbered layouts left it."""
    home = unpack(tmp_path / "old") / "party"
    (home / "node.toml").write_text(NODE)
    for each in (home / "state").iterdir():
        each.chmod(0o600)
    with closing(sqlite3.connect(home / "state" / "outbox.sqlite")) as database:  # its runs' manifests are old
        database.execute("UPDATE runs SET state = 'settled'")
        database.commit()
    return read_node(home)


def dump(state: Path) -> dict[str, Any]:
    """Every row of every file, and the layouts; none of it opened by this program."""
    found: dict[str, Any] = {}
    for layout in ALL:
        if (path := state / layout.file).exists():
            with closing(sqlite3.connect(path)) as database:
                found[layout.file] = (
                    database.execute("PRAGMA user_version").fetchone()[0], [*database.iterdump()]
                )  # fmt: skip
    return found


def left(state: Path) -> list[str]:
    """Of any upgrade or check."""
    return sorted(path.name for path in state.iterdir() if "upgrade" in path.name)


def spent(state: Path) -> float:
    with closing(Ledger.open(state / "ledger.sqlite")) as ledger:
        return ledger.populations["patients"].spent.epsilon


def test_a_rehearsal_says_what_would_change_and_changes_nothing(node: AnyNode) -> None:
    before = dump(node.state)
    modes: list[int] = []
    watched = {
        file: _noting(
            open_, lambda path: modes.extend(stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent))
        )
        for file, open_ in openers(node).items()
    }
    found = rehearse(node.state, Role.party, watched)
    assert found.well, found
    assert [(each.file, each.found, each.newest, each.due) for each in found.changes] == [
        ("ledger.sqlite", 0, 2, True), ("admissions.sqlite", 0, 1, True), ("outbox.sqlite", 0, 4, True),
    ]  # fmt: skip
    assert found.changes[2].adds == tuple(OUTBOX.changes.values())
    assert found.needed == 3 * sum(each.size for each in found.changes) > 0
    assert set(modes) == {0o600, 0o700}
    assert (dump(node.state), left(node.state)) == (before, [])


def _noting(open_: Callable[[Path], object], note: Callable[[Path], object]) -> Callable[[Path], object]:
    def opened(path: Path) -> None:
        note(path)
        open_(path)

    return opened


def test_runs_of_an_earlier_manifest_stand_in_the_way(node: AnyNode) -> None:
    with closing(sqlite3.connect(node.state / "outbox.sqlite")) as database:
        database.execute("UPDATE runs SET state = 'joined' WHERE run != 'heart-1'")
        database.execute("UPDATE runs SET manifest = ? WHERE run = 'heart-3'", (manifest().canonical,))
        database.commit()
    found = rehearse(node.state, Role.party, openers(node))
    assert (found.in_the_way, found.runs) == (("heart-2",), ("heart-3",))
    assert not found.well
    with pytest.raises(UpgradeError, match="finish or stop it there first"):
        carry_out(node.state, Role.party, openers(node))
    assert left(node.state) == []


def test_an_upgrade_keeps_what_was_until_the_start_and_goes_back_before_it(node: AnyNode) -> None:
    before, cost = dump(node.state), spent(node.state)
    assert [each.file for each in carry_out(node.state, Role.party, openers(node))] == [*STEPS]
    assert all(not each.due for each in changes(node.state))
    assert spent(node.state) == cost
    copies = [node.state / f"{file}{BEFORE}" for file in STEPS]
    assert {stat.S_IMODE(each.stat().st_mode) for each in copies} == {0o600}
    assert carry_out(node.state, Role.party, openers(node)) == []
    assert undo(node.state) == [*STEPS]
    assert dump(node.state) == before
    assert spent(node.state) == cost
    with pytest.raises(UpgradeError, match="nothing to go back to"):
        undo(node.state)

    carry_out(node.state, Role.party, openers(node))
    with alone(node.state, Role.party):  # as a node's process starts
        assert left(node.state) == []
        assert not list(node.state.glob("*.as-upgraded"))
    with pytest.raises(UpgradeError, match="the node was started since"):
        undo(node.state)


def test_an_earlier_release_that_was_started_meanwhile_is_not_unspent(node: AnyNode) -> None:
    """It knows no copies, and wipes none."""
    carry_out(node.state, Role.party, openers(node))
    with closing(sqlite3.connect(node.state / "admissions.sqlite")) as database:
        database.execute("INSERT INTO never VALUES (x'00')")
        database.commit()
    with pytest.raises(UpgradeError, match="would forget what was spent"):
        undo(node.state)


def _killed(state: Path, node: AnyNode, act: str, at: int) -> bool:
    """In a process of its own, which dies at that step; whether it got there."""
    child = os.fork()
    if child == 0:
        steps = iter(range(at + 1))

        def reached(step: str) -> None:
            if next(steps) == at:
                os._exit(9)

        if act == "upgrade":
            carry_out(state, Role.party, openers(node), reached)
        else:
            undo(state, reached)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("at", range(6))
def test_an_upgrade_killed_at_any_step_is_taken_again(node: AnyNode, at: int) -> None:
    before, cost = dump(node.state), spent(node.state)
    assert _killed(node.state, node, "upgrade", at)
    carry_out(node.state, Role.party, openers(node))
    assert all(not each.due for each in changes(node.state))
    assert spent(node.state) == cost
    if at < 3:  # before the first file had changed, every copy is of the whole
        assert undo(node.state) == [*STEPS]
        assert dump(node.state) == before
    with alone(node.state, Role.party):
        assert left(node.state) == []


@pytest.mark.parametrize("at", range(3))
def test_going_back_killed_at_any_step_is_taken_again(node: AnyNode, at: int) -> None:
    before = dump(node.state)
    carry_out(node.state, Role.party, openers(node))
    assert _killed(node.state, node, "undo", at)
    if at < 2:
        undo(node.state)
    assert dump(node.state) == before


def test_what_a_killed_check_left_is_wiped_and_nothing_else(node: AnyNode, monkeypatch: pytest.MonkeyPatch) -> None:
    child = os.fork()
    if child == 0:
        rehearse(node.state, Role.party, dict.fromkeys(STEPS, lambda path: os._exit(9)))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    folder = node.state / CHECK
    assert (folder / "ledger.sqlite").exists()
    theirs = folder / "a file of somebody's"
    theirs.write_text("kept")
    outside = node.folder / "outside"
    outside.write_text("kept")
    (folder / "outbox.sqlite").symlink_to(outside)
    forget(node.state)
    assert [path.name for path in folder.iterdir()] == [theirs.name]
    assert (theirs.read_text(), outside.read_text()) == ("kept", "kept")
    theirs.unlink()
    assert rehearse(node.state, Role.party, openers(node)).problem == ""
    assert left(node.state) == []

    folder.symlink_to(node.folder)
    with pytest.raises(UpgradeError, match="no folder of this user's"):
        rehearse(node.state, Role.party, openers(node))
    forget(node.state)
    folder.unlink()

    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 10, 0))
    assert "too little room" in rehearse(node.state, Role.party, openers(node)).problem
    with pytest.raises(UpgradeError, match="free the disk first"):
        carry_out(node.state, Role.party, openers(node))


def test_one_check_at_a_time(node: AnyNode) -> None:
    with upgrade._private(node.state):
        with pytest.raises(UpgradeError, match="another check"):
            rehearse(node.state, Role.party, openers(node))
        forget(node.state)  # a node that starts leaves it alone
        assert (node.state / CHECK).exists()


def test_a_newer_layout_is_refused_by_name(node: AnyNode) -> None:
    for layout in ALL:
        path = node.state / layout.file
        if not path.exists():
            continue
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA user_version = 9")
        with pytest.raises(LayoutError, match=rf"{layout.file} has the unknown layout 9"):
            openers(node)[layout.file](path)
        with pytest.raises(LayoutError, match="unknown layout 9"):
            changes(node.state)
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA user_version = 0")


@pytest.mark.slow
def test_the_command_tries_does_and_goes_back(node: AnyNode) -> None:
    home = str(node.folder)
    checked = parley("upgrade", home, "--check", "--json")
    assert checked.returncode == 0, checked.stderr
    assert answer(checked)["order"] == ["both aggregators", "every party", "the coordinator"]
    assert [each["file"] for each in answer(checked)["files"]] == [*STEPS]
    lines = parley("upgrade", home, "--check").stdout
    assert "layout 0 -> 4" in lines
    assert "nothing stands in the way" in lines
    handle = only_one(node.state, Role.party)  # the node runs
    refused = parley("upgrade", home)
    os.close(handle)
    assert (refused.returncode, "another process of this party is running" in refused.stderr) == (2, True)
    assert [each["file"] for each in answer(parley("upgrade", home, "--json"))["changed"]] == [*STEPS]
    assert "of this release already" in parley("upgrade", home).stdout
    assert "as before the upgrade" in parley("upgrade", home, "--undo").stdout
    assert parley("upgrade", home, "--undo").returncode == 2
    assert parley("upgrade", home, "--undo", "--check").returncode == 2


@pytest.mark.slow
def test_nothing_is_changed_or_put_back_while_a_reader_keeps_a_log(node: AnyNode) -> None:
    """What is unlinked with such a log is gone, if going back is killed before its next step."""
    path = node.state / "ledger.sqlite"
    with _read_while_written(path), pytest.raises(UpgradeError, match="open in another process"):
        carry_out(node.state, Role.party, openers(node))
    assert not left(node.state)
    assert carry_out(node.state, Role.party, openers(node))
    made = path.read_bytes()
    with _read_while_written(path):
        with pytest.raises(UpgradeError, match="open in another process"):
            undo(node.state)
        assert path.read_bytes() == made


@contextmanager
def _read_while_written(path: Path) -> Iterator[None]:
    """As by `parley page` beside a node that writes: the log cannot be folded into the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as write, closing(sqlite3.connect(path)) as read:
        write.execute("PRAGMA journal_mode = WAL").fetchone()
        read.execute("BEGIN")
        read.execute("SELECT count(*) FROM sqlite_master").fetchone()
        write.execute("CREATE TABLE more (a)")
        write.execute("DROP TABLE more")
        yield
        read.rollback()


def test_a_copy_is_kept_while_the_file_at_its_place_is_damaged(node: AnyNode) -> None:
    carry_out(node.state, Role.party, openers(node))
    path = node.state / "ledger.sqlite"
    good = path.read_bytes()
    path.write_bytes(good[:5000] + b"\0" * (len(good) - 5000))
    with pytest.raises(UpgradeError, match=r"ledger\.sqlite is damaged"), alone(node.state, Role.party):
        pass
    assert left(node.state)
    path.write_bytes(good)
    with alone(node.state, Role.party):
        assert not left(node.state)


def test_no_backup_is_made_of_a_ledger_that_has_its_salt_in_it(node: AnyNode, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="start the node once, or `parley upgrade`"):
        copy_database(node.state / "ledger.sqlite", tmp_path / "copy", LEDGER)
    with closing(Ledger.open_newest(node.state / "ledger.sqlite")):
        copy_database(node.state / "ledger.sqlite", tmp_path / "other", LEDGER)
