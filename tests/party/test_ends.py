"""The servers' signed ends, as a party keeps them: the very bytes that its ledger was settled on, or nothing."""

import hashlib
from pathlib import Path

from parley.node.endings import verify_ends
from parley.party.ends import FOLDER, keep, kept
from parley.v1 import coordinator_pb2
from tests.support.documents import manifest
from tests.support.reports import facts, identity


def test_what_is_kept_is_given_back_by_its_digest_and_proves_the_end(tmp_path: Path) -> None:
    evidence = coordinator_pb2.NextRoundResponse(ends=facts().ends).SerializeToString()
    keep(tmp_path, "heart-1", evidence)
    keep(tmp_path, "heart-1", evidence)
    (file,) = (tmp_path / FOLDER).iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.name == hashlib.sha256(evidence).hexdigest()
    found = kept(tmp_path, file.name)
    assert verify_ends(found, facts().manifest, identity().pins) == 40
    assert found[0].manifest_digest != manifest().digest


def test_what_was_altered_is_gone_or_is_no_message_counts_as_nothing(tmp_path: Path) -> None:
    evidence = coordinator_pb2.NextRoundResponse(ends=facts().ends).SerializeToString()
    keep(tmp_path, "heart-1", evidence)
    (file,) = (tmp_path / FOLDER).iterdir()
    file.write_bytes(evidence + b" ")
    assert kept(tmp_path, file.name) == ()
    keep(tmp_path, "heart-1", b"\xff" * 9)
    assert kept(tmp_path, hashlib.sha256(b"\xff" * 9).hexdigest()) == ()
    assert kept(tmp_path, "00" * 32) == kept(tmp_path / "nowhere", "00" * 32) == ()


def test_a_disk_that_takes_nothing_keeps_no_budget_from_coming_back(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file where the folder should be")
    keep(tmp_path, "heart-1", b"evidence")
    assert kept(tmp_path, hashlib.sha256(b"evidence").hexdigest()) == ()
