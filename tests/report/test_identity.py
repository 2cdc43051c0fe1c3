"""A report is believed by its key, so that a certificate that has run out is no hindrance."""

import datetime as dt
from pathlib import Path

import pytest

from parley.federation.errors import ExpiredError
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import NodeFolder
from parley.report.identity import identity_of
from tests.support.stage import NORTH, PARTY


def test_a_node_whose_certificate_has_run_out_can_still_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = ThrowAwayAuthority("cardio")
    authority.install(tmp_path / "other", NORTH)
    authority.install(tmp_path / "identity", PARTY)
    folder = NodeFolder(tmp_path / "identity")
    before = folder.load()
    later = before.expires + dt.timedelta(days=1)
    with pytest.raises(ExpiredError):
        before.check(later)
    monkeypatch.setattr("parley.node.credentials.Identity.check", lambda self, now=None: 1 / 0)
    found = identity_of(folder)
    assert (found.pin, found.name, found.pins.of(NORTH)) == (before.pin, PARTY, before.pins.of(NORTH))
