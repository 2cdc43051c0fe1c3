"""Backups of a node's folder: what is in and what is not, one encrypted file, and a new folder from it.

Each role has a list (`Contents`) that says of every file of its folder whether it is in. A file that is on no list is
left out, and named; a table that is on none stops the backup. Nothing is in by which a reader could learn a record or
unmask a sum. The file ends with an index of everything in it, signed with the node's key: whoever encrypts something
else to the operator cannot sign as the node.

A backup is taken while the node runs, each database as of one moment and in an order in which none tells of what
another has not yet. How a folder is made from it: `parley.node.restoration`.
"""

import fnmatch
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from parley.node import signatures
from parley.node.backup_copy import Database, Row, Table, copy_database
from parley.node.backup_key import BackupError
from parley.node.backup_stream import Encrypting
from parley.node.node_file import AnyNode
from parley.node.software import software_version
from parley.privacy.durable import PRIVATE, force

LABEL = "backup 1"
INDEX, SIGNATURE = "index.json", "index.signature"
RESTORED = "restored.json"
CURRENT = "identity/current"


@dataclass(frozen=True)
class Contents:
    """Of one role's folder; patterns are of paths below it, the first that fits decides."""

    inside: dict[str, str]
    """Pattern to what it is."""
    databases: dict[str, Database]
    """Path to what is in of it, those first that are written last."""
    outside: dict[str, str]
    """Pattern to why it is left out."""

    def place(self, path: str) -> str:
        """`in`, `database`, `out` or, of what nobody has thought of, `unknown`."""
        if path in self.databases:
            return "database"
        for kind, patterns in (("out", self.outside), ("in", self.inside)):
            if any(_fits(path, pattern) for pattern in patterns):
                return kind
        return "unknown"


def _fits(path: str, pattern: str) -> bool:
    """A star stands for no further folder, but as a pattern's whole last part: for all below it."""
    if pattern.endswith("/*"):
        return path.startswith(pattern[:-1])
    return path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern)


ADMISSIONS = Database(
    {
        "admissions": Table("run digest manifest how approved_by at overridden withdrawn"),
        "never": Table("digest"),
    }
)


def without_salt(row: Row) -> Row:
    """A ledger of the first layout has its salt in its first entry: no copy of that leaves the node."""
    if row["sequence"] == 1 and "salt" in (body := json.loads(row["body"])) and "layout" not in body:
        raise BackupError(
            "ledger.sqlite is of an earlier layout, which has the salt in it: start the node once, or `parley upgrade`"
        )
    return row


LEDGER = Database({"entries": Table("sequence kind body previous digest", change=without_salt)})
EVERYTHING = Database({})
INSIDE = {
    "node.toml": "addresses and settings",
    "policy.toml": "what the node admits",
    "identity/pins.toml": "whose keys it trusts",
    "identity/revoked.crl": "the authority's list of revoked certificates",
    "identity/rotation.json": "its last rotation, which peers may still have to accept",
    CURRENT: "which identity is in use",
    "identity/identities/*": "its key and certificates",
    "state/trail.jsonl": "its audit trail",
    "state/evidence/*.evidence": "proof against a server",
    "state/evidence/*.json": "what its operator answered to that",
}
OUTSIDE = {
    "identity/pending/*": "a request that waits: made again",
    "identity/*.lock": "no content",
    "identity/.*": "of a change that was cut short",
    "state/ledger.sqlite.head": "computed again",
    "state/ledger.sqlite.salt": "with it the ledger could be asked whether a row is among the records: drawn anew",
    "state/evidence/waiting/*": "batches of noise whose audit has no verdict",
    "state/verified/*": "computed again",
    "state/notified": "when the operator was last told something",
    "state/*.before-upgrade": "a copy for the time of an upgrade",
    "state/*.as-upgraded": "likewise",
    "state/upgrade-check/*": "a rehearsal's copy",
    "state/log.jsonl*": "logs, which say nothing that is needed",
    "state/*.lock": "no content",
    "state/*.sqlite-wal": "of a database, which is copied as of one moment",
    "state/*.sqlite-shm": "likewise",
    "state/.*": "of a file that was being written",
    f"state/{RESTORED}": "said anew by the next restore",
}


@dataclass
class Made:
    """What `make` did."""

    files: dict[str, int] = field(default_factory=dict)
    """Name to bytes."""
    left_out: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Left out, too: on no list."""


def paths(folder: Path) -> Iterator[str]:
    """Every file and link below a node's folder, in order."""
    for where, folders, files in os.walk(folder):
        folders.sort()
        here = Path(where)
        links = [each for each in folders if (here / each).is_symlink()]
        for name in sorted((*files, *links)):
            yield str((here / name).relative_to(folder))


def make(node: AnyNode, contents: Contents, out: Path, to: X25519PublicKey) -> Made:
    """Write a backup; the node may be running."""
    made, at = Made(), int(time.time())
    node.state.mkdir(mode=0o700, exist_ok=True)
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    except OSError as error:
        why = "is there already: choose another file" if isinstance(error, FileExistsError) else error.strerror
        raise BackupError(f"{out} {why}") from None
    try:
        with os.fdopen(handle, "wb") as file, _aside(node.state) as aside:
            sink = Encrypting(file, to)
            with io.BufferedWriter(sink, 1 << 16) as buffered, tarfile.open(fileobj=buffered, mode="w|") as archive:
                _write(archive, node, contents, aside, made, at)
                archive.close()
                buffered.flush()
                sink.finish()
            file.flush()
            os.fsync(file.fileno())
        force(out.absolute().parent)
    except BaseException:
        out.unlink(missing_ok=True)
        raise
    return made


@contextmanager
def _aside(state: Path) -> Iterator[Path]:
    """For copies of databases, where the originals are: nothing is unencrypted on another disk."""
    for left in state.glob(".backup-*"):  # of a crash
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=".backup-", dir=state))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(archive: tarfile.TarFile, node: AnyNode, contents: Contents, aside: Path, made: Made, at: int) -> None:
    identity = node.identity.load()
    index: dict[str, Any] = {}

    def add(name: str, file: BinaryIO, size: int) -> None:
        reader = _Hashing(file)
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = size, PRIVATE
        archive.addfile(entry, reader)
        index[name] = {"sha256": reader.digest(), "size": size}
        made.files[name] = size

    found = list(paths(node.folder))
    listed = {"in": [], "out": made.left_out, "unknown": made.unknown, "database": []}
    for path in found:
        listed[contents.place(path)].append(path)
    # The trail first, for it tells of what databases have by then; those in the order of their list.
    for path in sorted(listed["in"], key=lambda path: path != "state/trail.jsonl"):
        _add_file(node.folder, path, contents, add, made)
    for path, which in contents.databases.items():
        if path in found:
            copy = aside / PurePosixPath(path).name
            copy_database(node.folder / path, copy, which)
            with copy.open("rb") as file:
                add(path, file, copy.stat().st_size)
            copy.unlink()
    body = {
        "form": LABEL, "node": identity.name.uri, "role": str(node.role), "made": at, "software": software_version(),
        "files": index,
    }  # fmt: skip
    data = json.dumps(body, sort_keys=True).encode()
    signature = signatures.sign(identity, LABEL, data)
    add(INDEX, io.BytesIO(data), len(data))
    add(SIGNATURE, io.BytesIO(signature), len(signature))
    for name in (INDEX, SIGNATURE):
        del made.files[name]


def _add_file(
    folder: Path, path: str, contents: Contents, add: Callable[[str, BinaryIO, int], None], made: Made
) -> None:
    source = folder / path
    if source.is_symlink():
        target = os.readlink(source).encode()
        if path == CURRENT:
            add(path, io.BytesIO(target), len(target))
        else:
            made.unknown.append(path)
        return
    try:
        with source.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if path.endswith(".jsonl"):  # it grows by whole lines; what a crash left half is mended by its owner
                size = _whole_lines(file, size)
            add(path, file, size)
    except FileNotFoundError:
        return  # replaced or removed meanwhile
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror}") from None


def _whole_lines(file: BinaryIO, size: int) -> int:
    """How many bytes up to the last line's end; the file is at its beginning again."""
    end = size
    while end:
        begin = max(0, end - (1 << 16))
        file.seek(begin)
        at = file.read(end - begin).rfind(b"\n")
        if at >= 0:
            file.seek(0)
            return begin + at + 1
        end = begin
    file.seek(0)
    return 0


class _Hashing:
    """What passes through it is digested."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._hash.update(data)
        return data

    def digest(self) -> str:
        return self._hash.hexdigest()
