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
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from tests.support.ledger_files import by_hand, filled
from tests.support.ledgers import BASIC, EVENT, new


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


def test_the_ledger_is_readable_without_this_program(tmp_path: Path) -> None:
    path, _ = filled(tmp_path / "l")
    bodies = [
        json.loads(body) for (body,) in sqlite3.connect(path).execute("SELECT body FROM entries ORDER BY sequence")
    ]
    assert bodies[2]["charge"]["cost"]["epsilon"] == 0.3
