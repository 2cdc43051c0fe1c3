"""A folder is read, and nothing is written: each store by itself."""

import os
import sqlite3
from pathlib import Path

import pytest

from parley.federation.admission import AdmissionRecord
from parley.page.folder import Folder
from parley.page.process import page_node
from parley.party.outbox import JOINED, Outbox


def test_all_of_a_folder_is_read(folder: Path) -> None:
    found = Folder(page_node(folder)).read()
    assert found.problems == ()
    assert {held.run: held.state for held in found.states} == {"heart-1": "settled", "heart-2": "waiting"}
    assert [each.how for each, _ in found.admissions.values()] == ["policy"]
    assert list(found.books.populations) == ["patients"]
    assert found.dates["heart-1"].charged
    assert found.data[0]["sealed"]


def test_a_folder_without_a_state_is_empty_and_stays_so(folder: Path) -> None:
    for path in (folder / "state").iterdir():
        path.unlink() if path.is_file() else None
    found = Folder(page_node(folder)).read()
    assert found.states == ()
    assert found.books.budgets == ()
    assert not list((folder / "state").glob("*.sqlite"))


def test_one_damaged_store_hides_no_other(folder: Path) -> None:
    (folder / "state" / "ledger.sqlite.head").write_text("nonsense")
    found = Folder(page_node(folder)).read()
    assert [each.split(":")[0] for each in found.problems] == ["The ledger"]
    assert len(found.states) == 2


def test_stores_that_are_opened_to_read_cannot_be_written(folder: Path) -> None:
    state = folder / "state"
    outbox, record = (
        Outbox(state / "outbox.sqlite", read_only=True),
        AdmissionRecord(state / "admissions.sqlite", read_only=True),
    )
    held = outbox.runs()[0]
    with pytest.raises(Exception, match="readonly"):
        outbox.note(held.digest, held.run, held.manifest, JOINED)
    with pytest.raises(Exception, match="readonly"):
        record.never(bytes(32))
    outbox.close()
    record.close()
    with pytest.raises((sqlite3.Error, Exception), match="cannot be opened"):
        Outbox(folder / "nothing.sqlite", read_only=True)
    assert not os.path.exists(folder / "nothing.sqlite")
