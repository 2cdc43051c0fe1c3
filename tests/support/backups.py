"""Backups by the command, and what is in one."""

import io
import tarfile
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from parley.node.backup_stream import Decrypting
from tests.support.command import answer, parley

PASSPHRASE = "correct horse battery"


class Operator:
    """Whoever keeps the key, apart from all nodes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self.folder, self.key, self._phrase = folder, folder / "backup.key", folder / "phrase"
        self._phrase.touch(0o600)
        self._phrase.write_text(PASSPHRASE + "\n")
        self.public = answer(self._done("backup", "key", "-o", str(self.key), *self._given()))["public"]

    def backup(self, node: Path, name: str) -> Path:
        out = self.folder / name
        self.made = answer(self._done("backup", str(node), "-o", str(out), "--to", str(self.public), "--json"))
        return out

    def restore(self, backup: Path, node: Path, confirmed: bool = True) -> dict[str, Any]:
        found = answer(self._done("restore", str(backup), str(node), "--key", str(self.key), *self._given()))
        if confirmed:
            self._done("restore", "--confirm", str(node), "--by", "Dr. Ada Osei")
        return found

    def _given(self) -> tuple[str, ...]:
        return "--passphrase-file", str(self._phrase), "--json"

    @staticmethod
    def _done(*words: str) -> Any:
        done = parley(*words)
        assert done.returncode == 0, done.stderr
        return done


def opened_by(key: X25519PrivateKey, backup: Path) -> dict[str, bytes]:
    """Everything that is in it."""
    with backup.open("rb") as file:
        plain = io.BufferedReader(Decrypting(file, key)).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        return {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
