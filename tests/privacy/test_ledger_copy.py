"""A ledger is read on a copy, and its own files stay as they are."""

from pathlib import Path

import pytest

from parley.privacy.errors import PrivacyError
from parley.privacy.filters import Cap, Policy
from parley.privacy.ledger import Ledger
from parley.privacy.ledger_copy import copied
from parley.privacy.mechanism import ROW


def test_a_copy_says_what_the_ledger_says_while_it_is_open_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    own = Ledger.create(path, Policy())
    own.register("patients", ROW, Cap(4.0, 1e-4))
    with copied(path) as ledger:
        assert str(ledger.verify()) == str(own.verify())
        assert list(ledger.populations) == ["patients"]
        own.declare_apart("staff", "Dr. Ada Osei")  # its owner does not wait for who reads
    own.close()


def test_a_ledger_that_is_not_what_was_written_is_refused_on_the_copy_too(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger.create(path, Policy()).close()
    path.with_name("ledger.sqlite.head").write_text(f"7:{'0' * 64}")
    with pytest.raises(PrivacyError), copied(path):
        pass
