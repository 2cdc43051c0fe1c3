"""The operator's key for backups: a file under a passphrase, and a public key that a typing error does not survive."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from parley.node import backup_key
from parley.node.backup_key import BackupError

PHRASE = b"correct horse battery"


@pytest.mark.slow
def test_the_secret_comes_back_under_its_passphrase_and_under_no_other(tmp_path: Path) -> None:
    path = tmp_path / "backup.key"
    public = backup_key.make(path, PHRASE)
    assert path.stat().st_mode & 0o777 == 0o600
    assert backup_key.public_text(backup_key.load(path, PHRASE).public_key()) == public
    with pytest.raises(BackupError, match="passphrase is wrong"):
        backup_key.load(path, PHRASE + b"!")
    with pytest.raises(BackupError, match="never replaced"):
        backup_key.make(path, PHRASE)


def test_a_short_passphrase_makes_no_key(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="at least 12"):
        backup_key.make(tmp_path / "backup.key", b"short")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", [{"public": "parley-backup-x"}, {"form": "other"}, {"salt": "no"}])
def test_a_key_file_that_was_changed_is_refused(tmp_path: Path, change: dict[str, str]) -> None:
    path = tmp_path / "backup.key"
    backup_key.make(path, PHRASE)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(BackupError):
        backup_key.load(path, PHRASE)


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "backup.key"
    backup_key.make(path, PHRASE)
    path.chmod(0o644)
    with pytest.raises(BackupError, match="others can read it"):
        backup_key.load(path, PHRASE)


def test_every_single_typing_error_in_a_public_key_is_found() -> None:
    text = backup_key.public_text(X25519PrivateKey.generate().public_key())
    assert backup_key.public_text(backup_key.parse_public(f" {text}\n")) == text
    for place in range(len(text)):
        for letter in "a2":
            wrong = text[:place] + letter + text[place + 1 :]
            if wrong != text:
                with pytest.raises(BackupError, match="no public key"):
                    backup_key.parse_public(wrong)
    for wrong in ("", text[:-1], text + "a", text.upper()):
        with pytest.raises(BackupError, match="no public key"):
            backup_key.parse_public(wrong)
