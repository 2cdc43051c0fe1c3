"""A reviewer's key: a file under a passphrase, which signs nothing else than it says."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.federation.errors import CertificateError
from parley.node.pins import CURVE
from parley.node.reviewer_key import ReviewerKey, reviewed

SECRET = b"correct horse battery"


def test_a_key_file_is_private_opens_with_its_passphrase_alone_and_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ada.key"
    made = ReviewerKey.make(path, SECRET, "ada-osei")
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"ENCRYPTED" in path.read_bytes()
    assert ReviewerKey.load(path, SECRET).line() == made.line()
    plain = tmp_path / "plain.key"  # without its first line, which says no more than a name
    plain.touch(0o600)
    plain.write_bytes(path.read_bytes().partition(b"\n")[2])
    assert ReviewerKey.load(plain, SECRET).line("ada-osei") == made.line()
    with pytest.raises(CertificateError, match="no name"):
        ReviewerKey.load(plain, SECRET).line()
    assert made.line().startswith('ada-osei = "0')
    for passphrase in (b"", b"another passphrase"):
        with pytest.raises(CertificateError):
            ReviewerKey.load(path, passphrase)
    with pytest.raises(CertificateError, match="there already"):
        ReviewerKey.make(path, SECRET, "ada-osei")
    with pytest.raises(CertificateError, match="at least 12"):
        ReviewerKey.make(tmp_path / "other.key", b"short", "ada")
    assert not (tmp_path / "other.key").exists()
    with pytest.raises(CertificateError, match="no name"):
        ReviewerKey.make(tmp_path / "other.key", SECRET, "Ada Osei")
    with pytest.raises(CertificateError, match="cannot be written"):
        ReviewerKey.make(tmp_path / "nowhere" / "ada.key", SECRET, "ada")


def test_a_file_that_others_may_read_or_that_is_no_such_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ada.key"
    ReviewerKey.make(path, SECRET, "ada-osei")
    path.chmod(0o644)
    with pytest.raises(CertificateError, match="mode 644"):
        ReviewerKey.load(path, SECRET)
    sealed = serialization.BestAvailableEncryption(SECRET)
    for name, key, encryption, why in (
        ("plain", ec.generate_private_key(CURVE), serialization.NoEncryption(), "has no passphrase"),
        ("curve", ec.generate_private_key(ec.SECP384R1()), sealed, "no reviewer"),
    ):
        other = tmp_path / name
        other.touch(0o600)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        other.write_bytes(key.private_bytes(*form))
        with pytest.raises(CertificateError, match=why):
            ReviewerKey.load(other, SECRET)
    for content in (b"", b"no key"):
        (tmp_path / "plain").write_bytes(content)
        with pytest.raises(CertificateError, match="cannot be opened"):
            ReviewerKey.load(tmp_path / "plain", SECRET)


def test_a_signature_is_of_its_kind_its_words_and_its_key(tmp_path: Path) -> None:
    ada, ben = (ReviewerKey(ec.generate_private_key(CURVE)) for _ in range(2))
    signature = ada.sign("approval", b"words")
    assert reviewed(ada.public, "approval", b"words", signature)
    assert not reviewed(ada.public, "policy", b"words", signature)
    assert not reviewed(ada.public, "approval", b"word", signature)
    assert not reviewed(ben.public, "approval", b"words", signature)
    assert not reviewed(ada.public, "approval", b"words", b"")
    assert "private" not in repr(ada)
