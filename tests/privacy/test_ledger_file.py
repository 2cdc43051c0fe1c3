"""The ledger's files: no edit, gap, reordering or cut goes unseen, and what damages them is refused in words."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from parley.privacy.canonical import canonical_json
from parley.privacy.chain import entry_digest
from parley.privacy.errors import LedgerCorruptError, LedgerRefusedError
from parley.privacy.filters import Charge, Cost
from parley.privacy.finite_precision import EXACT
from parley.privacy.head import Head
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from tests.privacy.ledgers import BASIC, EVENT, new


def filled(path: Path) -> tuple[Path, Head]:
    ledger = new(path)
    ledger.reserve("one", "ward", BASIC)
    ledger.record("one", 0, "a")
    ledger.reserve("two", "ward", BASIC)
    head = ledger.verify()
    ledger.close()
    return path, head


def by_hand(path: Path, *statements: str, keep_triggers: bool = False) -> None:
    connection = sqlite3.connect(path)
    dropped = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in dropped:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, sql in () if keep_triggers else dropped:
        connection.execute(sql)
    connection.commit()
    connection.close()


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


def test_restoring_both_files_to_an_old_state_is_found_by_an_anchor_that_somebody_else_kept(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    ledger.close()
    for suffix in ("", ".head"):
        shutil.copy(tmp_path / f"l{suffix}", tmp_path / f"old{suffix}")
    ledger = Ledger.open(tmp_path / "l")
    ledger.reserve("run", "ward", BASIC)
    anchor = ledger.verify()
    ledger.close()
    assert Ledger.open(tmp_path / "l", anchor).verify(anchor) == anchor
    assert Ledger.open(tmp_path / "old").verify() != anchor
    with pytest.raises(LedgerCorruptError, match="cut"):
        Ledger.open(tmp_path / "old", anchor)


def test_a_missing_or_broken_head_and_altered_triggers_are_found(tmp_path: Path) -> None:
    path, _ = filled(tmp_path / "l")
    head = Path(f"{path}.head")
    kept = head.read_text()
    for text in ("", "x", "5:12", f"7:{'0' * 64}", "-1:" + "0" * 64):
        head.write_text(text)
        with pytest.raises(LedgerCorruptError):
            Ledger.open(path)
    head.unlink()
    with pytest.raises(LedgerCorruptError, match="head"):
        Ledger.open(path)
    head.write_text(kept)
    Ledger.open(path).close()
    by_hand(path, keep_triggers=True)
    with pytest.raises(LedgerCorruptError, match="triggers"):
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


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET kind = 'x'",
        "DELETE FROM entries",
        "INSERT OR REPLACE INTO entries SELECT sequence, kind, '{}', previous, 'y' FROM entries WHERE sequence = 3",
        "INSERT INTO entries VALUES (9, 'x', '{}', 'p', 'd')",
        "INSERT INTO entries VALUES (6, 'x', '{}', 'p', 'd')",
        "REPLACE INTO entries VALUES (5, 'x', '{}', 'p', 'd')",
    ],
)
def test_the_database_itself_forbids_everything_but_the_next_entry(tmp_path: Path, statement: str) -> None:
    path, head = filled(tmp_path / "l")
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()
    assert Ledger.open(path).verify() == head


def test_entries_that_this_program_never_writes_are_found_though_their_digests_are_right(tmp_path: Path) -> None:
    path, _ = filled(tmp_path / "l")
    too_much = Charge("m", EVENT, ROW, EXACT, "pld", Cost(epsilon=5.0, delta=1e-6)).as_json()
    for kind, body in (
        ("reserve", {"run": "three", "population": "ward", "charge": too_much}),
        ("reserve", {"run": "one", "population": "ward", "charge": BASIC.as_json()}),
        ("settle", {"run": "nobody", "releases": 0}),
        ("population", {"name": "ward", "unit": None, "cap": {"epsilon": 9, "delta": 0.1}, "identity": None}),
        ("ledger", {"policy": {"rule": "basic", "order": None}, "salt": "00"}),
        ("surprise", {}),
        ("release", []),
    ):
        copy = tmp_path / f"copy {kind} {len(body)}"
        for suffix in ("", ".head"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
        connection = sqlite3.connect(copy)
        previous = connection.execute("SELECT digest FROM entries WHERE sequence = 5").fetchone()[0]
        text = canonical_json(body)
        digest = entry_digest(previous, 6, kind, text)
        connection.execute("INSERT INTO entries VALUES (6, ?, ?, ?, ?)", (kind, text, previous, digest))
        connection.commit()
        connection.close()
        with pytest.raises(LedgerCorruptError, match="entry 6"):
            Ledger.open(copy)


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


def test_a_file_that_is_no_ledger_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 64)
    for path, kind in ((tmp_path / "noise", LedgerCorruptError), (tmp_path / "absent", LedgerRefusedError)):
        with pytest.raises(kind) as refusal:
            Ledger.open(path)
        assert "\n" not in str(refusal.value)


def test_a_creation_that_was_cut_short_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "l.head").write_text(f"0:{'0' * 64}\n")
    sqlite3.connect(tmp_path / "l").close()
    new(tmp_path / "l").reserve("run", "ward", BASIC)
    assert Ledger.open(tmp_path / "l").populations["ward"].spent.epsilon == 0.3


# --- Any order of operations ---------------------------------------------------------------------------------------


def test_the_ledger_is_readable_without_this_program(tmp_path: Path) -> None:
    path, _ = filled(tmp_path / "l")
    bodies = [
        json.loads(body) for (body,) in sqlite3.connect(path).execute("SELECT body FROM entries ORDER BY sequence")
    ]
    assert bodies[2]["charge"]["cost"]["epsilon"] == 0.3
