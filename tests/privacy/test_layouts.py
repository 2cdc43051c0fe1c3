"""Files say which layout they have, and come to today's by one transaction or not at all."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from parley.privacy.layouts import ALL, OUTBOX, LayoutError, bring, layout_of, require_known, stamp
from parley.privacy.store import opened

PAGE = Path(__file__).parents[2] / "docs" / "upgrade.md"


def test_a_fresh_file_and_an_old_one_are_brought_to_the_newest(tmp_path: Path) -> None:
    for number in (0, 2):
        with closing(opened(tmp_path / f"{number}.sqlite")) as database:
            database.execute(f"PRAGMA user_version = {number}")
            steps = {each: lambda made: made.execute("CREATE TABLE t (x)") for each in (0, 2)}
            bring(database, OUTBOX, steps)
            assert layout_of(database) == OUTBOX.newest
            bring(database, OUTBOX, {})  # nothing is left to do


def test_a_step_that_fails_leaves_the_old_layout_whole(tmp_path: Path) -> None:
    def fails(database: sqlite3.Connection) -> None:
        database.execute("CREATE TABLE half (x)")
        raise sqlite3.OperationalError("disk I/O error")

    with closing(opened(tmp_path / "outbox.sqlite")) as database:
        with pytest.raises(sqlite3.OperationalError):
            bring(database, OUTBOX, {0: fails})
        assert layout_of(database) == 0
        assert database.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


@pytest.mark.parametrize("number", [1, OUTBOX.newest + 1, 2**31 - 1])
def test_a_layout_that_this_release_does_not_know_is_refused_by_name(tmp_path: Path, number: int) -> None:
    with closing(opened(tmp_path / "outbox.sqlite")) as database:
        database.execute(f"PRAGMA user_version = {number}")
        with pytest.raises(
            LayoutError, match=f"outbox.sqlite has the unknown layout {number}, .* knows {OUTBOX.newest}"
        ):
            bring(database, OUTBOX, {0: lambda _: None, 2: lambda _: None})
        if number > OUTBOX.newest:
            with pytest.raises(LayoutError):
                require_known(database, OUTBOX)
        assert layout_of(database) == number


def test_what_a_migration_adds_is_said_of_each_step() -> None:
    steps = list(OUTBOX.changes.values())
    assert OUTBOX.changes_from(0) == steps
    assert OUTBOX.changes_from(2) == steps[1:] == ["how far audits had come", steps[-1]]
    assert OUTBOX.changes_from(OUTBOX.newest) == []


def test_a_number_can_be_put_on_a_file_that_is_today_s_already(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "outbox.sqlite")) as database:
        stamp(database, OUTBOX)
        assert require_known(database, OUTBOX) == OUTBOX.newest


def test_the_page_has_the_registry() -> None:
    rows = dict(re.findall(r"^\| `(\w+\.sqlite)`[^|]*\| (\d+) \|", PAGE.read_text(), re.MULTILINE))
    assert rows == {layout.file: str(layout.newest) for layout in ALL}
    for layout in ALL:
        assert all(f"{number}: {added}" in PAGE.read_text() for number, added in layout.changes.items())
