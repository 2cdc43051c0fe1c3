"""The salt of a ledger's digests of rows, in a file of its own: `<ledger>.salt`."""

import contextlib
import hashlib
import re
from pathlib import Path

from parley.privacy.durable import replace_durably
from parley.privacy.errors import LedgerCorruptError, LedgerRefusedError


def salt_path(path: Path) -> Path:
    return path.with_name(path.name + ".salt")


def salt_digest(salt: str) -> str:
    return hashlib.sha256(b"parley-ledger-salt-1" + bytes.fromhex(salt)).hexdigest()


def write_salt(path: Path, salt: str) -> None:
    try:
        replace_durably(salt_path(path), f"{salt}\n")
    except OSError as error:
        raise LedgerRefusedError(f"the ledger's salt cannot be written ({error}): free the disk, then repeat") from None


def read_salt(path: Path) -> str:
    text = ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = salt_path(path).read_text().strip()
    if re.fullmatch("[0-9a-f]{32}", text) is None:
        raise LedgerCorruptError(f"{salt_path(path).name} is missing or damaged: restore it from a backup")
    return text
