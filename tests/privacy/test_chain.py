"""Entries are chained: every edit is found."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from parley.privacy.chain import entry_digest
from parley.privacy.errors import LedgerCorruptError
from parley.privacy.head import Head
from parley.privacy.ledger import Ledger
from tests.support.ledger_files import by_hand, filled


def mended(path: Path) -> None:
    """Recompute every digest, as somebody who knows the format would."""
    connection = sqlite3.connect(path)
    previous = "0" * 64
    for sequence, kind, body in connection.execute("SELECT sequence, kind, body FROM entries ORDER BY 1").fetchall():
        digest = entry_digest(previous, sequence, kind, body)
        connection.execute("UPDATE entries SET previous=?, digest=? WHERE sequence=?", (previous, digest, sequence))
        previous = digest
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (
            ["UPDATE entries SET body = replace(body, '0.3', '0.1') WHERE sequence = 3"],
            "entry 3 is not what was written",
        ),
        (["UPDATE entries SET kind = 'settle' WHERE sequence = 3"], "entry 3 is not what was written"),
        (["DELETE FROM entries WHERE sequence = 4"], "entry 4 is missing"),
        (
            [
                "UPDATE entries SET sequence = 99 WHERE sequence = 3",
                "UPDATE entries SET sequence = 3 WHERE sequence = 4",
                "UPDATE entries SET sequence = 4 WHERE sequence = 99",
            ],
            "entry 3 is not what was written",
        ),
        (["DELETE FROM entries WHERE sequence = 5"], "cut"),
        (["DELETE FROM entries WHERE sequence > 2"], "cut"),
        (["DELETE FROM entries"], "empty"),
        (["CREATE TABLE spare (x)"], "altered"),
    ],
)
def test_every_edit_gap_reordering_and_cut_is_found(tmp_path: Path, statements: list[str], found: str) -> None:
    path, _ = filled(tmp_path / "l")
    by_hand(path, *statements)
    with pytest.raises(LedgerCorruptError, match=found):
        Ledger.open(path)


def test_an_edit_with_a_mended_chain_is_found_by_the_head_beside_the_ledger(tmp_path: Path) -> None:
    path, _ = filled(tmp_path / "l")
    by_hand(path, "UPDATE entries SET body = replace(body, '0.3', '0.1') WHERE sequence = 3")
    dropped = sqlite3.connect(path).execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    by_hand(path, keep_triggers=True)
    mended(path)
    by_hand(path, *[sql for (sql,) in dropped], keep_triggers=True)
    with pytest.raises(LedgerCorruptError, match="rewritten"):
        Ledger.open(path)


def test_the_head_may_lag_one_entry_behind_and_not_two(tmp_path: Path) -> None:
    path, _ = filled(tmp_path / "l")
    digests = dict(sqlite3.connect(path).execute("SELECT sequence, digest FROM entries").fetchall())
    head = Path(f"{path}.head")
    head.write_text(f"4:{digests[4]}\n")
    assert Ledger.open(path).verify() == Head(5, digests[5])
    assert head.read_text() == f"5:{digests[5]}\n"
    head.write_text(f"3:{digests[3]}\n")  # entry 4 is a release, which does not move the head
    assert Ledger.open(path).verify() == Head(5, digests[5])
    head.write_text(f"2:{digests[2]}\n")
    with pytest.raises(LedgerCorruptError, match="2 entries behind"):
        Ledger.open(path)


def test_every_single_byte_that_is_changed_in_an_entry_is_found(tmp_path: Path) -> None:
    path, _ = filled(tmp_path / "l")
    body = sqlite3.connect(path).execute("SELECT body FROM entries WHERE sequence = 3").fetchone()[0]
    for position in range(0, len(body), 17):
        changed = body[:position] + chr(ord(body[position]) ^ 1) + body[position + 1 :]
        for suffix in ("", ".head"):
            shutil.copy(f"{path}{suffix}", tmp_path / f"copy{suffix}")
        by_hand(
            tmp_path / "copy", f"UPDATE entries SET body = '{changed.replace(chr(39), chr(39) * 2)}' WHERE sequence = 3"
        )
        with pytest.raises(LedgerCorruptError):
            Ledger.open(tmp_path / "copy")
