"""The salt of a ledger's digests of rows, in a file of its own: `<ledger>.salt`."""

import contextlib
import hashlib
import re
from pathlib import Path

from parley.privacy.canonical import canonical_json
from parley.privacy.chain import Chain, Entry, entry_digest
from parley.privacy.durable import replace_durably
from parley.privacy.errors import LedgerCorruptError, LedgerRefusedError
from parley.privacy.head import GENESIS, Head


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


def former_digests(chain: Chain) -> dict[int, str]:
    """The digests that the entries had in the first layout, which must lead to the head that the ledger had then.

    Only with the salt can they be told; without it a ledger is read, and no row of it recognised.
    """
    entries = chain.entries()
    first = next(entries, None)
    before = first.body.get("before") if first is not None else None
    if first is None or not before or not salt_path(chain.path).exists():
        return {}
    if any(entry.kind == "restored" and entry.body.get("salt") for entry in chain.entries()):
        return {}  # the first salt is in no backup
    kept = Head.parse(str(before))
    found, previous = {}, GENESIS
    was = {"policy": first.body.get("policy"), "salt": read_salt(chain.path)}
    for entry in [Entry(1, first.kind, was, ""), *entries]:
        if entry.sequence <= kept.sequence:
            previous = entry_digest(previous, entry.sequence, entry.kind, canonical_json(entry.body))
            found[entry.sequence] = previous
    if found.get(kept.sequence) != kept.digest:
        raise LedgerCorruptError("the ledger or its salt is not the one that was migrated: restore both from a backup")
    return found
