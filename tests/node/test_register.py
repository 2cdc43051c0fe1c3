"""The register of an authority: what it issued, and what a revocation finds in it."""

import json
from pathlib import Path

import pytest

from parley.federation.errors import CertificateError
from parley.node import installation as nodes
from parley.node.authority import Authority
from parley.node.credentials import NodeFolder
from parley.node.register import REGISTER_FILE, entries_for, issued, publish
from tests.support.enrolment import PARTY

HOME = "ca"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """It has issued two certificates of one key."""
    made = Authority.create("cardio")
    made.save(tmp_path / HOME, None)
    waiting = nodes.request(NodeFolder(tmp_path / "node"), PARTY)
    for _ in range(2):
        made.note(tmp_path / HOME, made.approve(waiting.path.read_bytes(), waiting.fingerprint), PARTY)
    return made


def test_a_node_is_revoked_with_all_its_certificates_and_a_serial_alone(tmp_path: Path, authority: Authority) -> None:
    folder = tmp_path / HOME
    first, second = issued(folder)
    assert first.key == second.key != b""
    assert [each.serial for each in entries_for(folder, "cardio", "party/hospital-a", "left", None)] == [
        first.serial, second.serial,
    ]  # fmt: skip
    assert [each.serial for each in entries_for(folder, "cardio", f"{second.serial:x}", "left", None)] == [
        second.serial
    ]
    with pytest.raises(CertificateError, match="in no line of issued"):
        entries_for(folder, "cardio", "party/hospital-b", "left", None)


def test_of_an_earlier_releases_certificate_the_key_has_to_be_said(tmp_path: Path, authority: Authority) -> None:
    path = tmp_path / HOME / REGISTER_FILE
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        del line["pin"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(CertificateError, match="give --pin"):
        entries_for(path.parent, "cardio", "party/hospital-a", "left", None)
    (one, _) = entries_for(path.parent, "cardio", "party/hospital-a", "left", b"k" * 32)
    assert one.key == b"k" * 32


def test_a_list_never_forgets_and_its_number_grows(tmp_path: Path, authority: Authority) -> None:
    folder = tmp_path / HOME
    first, second = entries_for(folder, "cardio", "party/hospital-a", "left", None)
    one = publish(folder, authority, [first])
    both = publish(folder, authority, [second])
    assert {each.serial for each in both.entries} == {first.serial, second.serial}
    assert publish(folder, authority, []).number > both.number > one.number


def test_a_register_that_cannot_be_read_revokes_nothing(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / HOME / REGISTER_FILE).write_text("half a line")
    with pytest.raises(CertificateError, match="restore it from a backup"):
        issued(tmp_path / HOME)
