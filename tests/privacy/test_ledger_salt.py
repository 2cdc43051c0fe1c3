"""The ledger's salt."""

from pathlib import Path

from tests.support.ledgers import new, rows


def test_content_digests_are_salted_so_that_they_cannot_be_tried_elsewhere(tmp_path: Path) -> None:
    one, other = new(tmp_path / "a"), new(tmp_path / "b")
    assert one.identity(rows(5)).digest != other.identity(rows(5)).digest
