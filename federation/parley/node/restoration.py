"""A new node's folder from a backup, and what its operator has to confirm before anything starts in it.

What is restored is checked in a folder beside the target, and appears there whole: its index is of exactly the files
that are in it, all of them on the role's list, and signed with the key that is among them. It replaces nothing.

Pins and policy are those of the day of the backup: a peer whose key was given up since, or a limit that was lowered
since, is back. So no process starts on the folder before a person has compared them (`confirm`).
"""

import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from parley.federation.names import Role
from parley.node import signatures
from parley.node.backup import CURRENT, INDEX, LABEL, RESTORED, SIGNATURE, Contents, paths
from parley.node.backup_key import BackupError
from parley.node.backup_stream import Decrypting
from parley.node.credentials import Identity
from parley.node.node_file import AnyNode, Node, read_node
from parley.node.pins import Pins, read_pins
from parley.privacy.durable import PRIVATE, force, replace_durably

MOST_INDEX = 64 << 20
MOST_FILES = 1_000_000


@dataclass(frozen=True)
class Restored:
    """What is in a new folder."""

    node: AnyNode
    identity: Identity
    made: int
    """When the backup was, in seconds since 1970, by the node's clock."""

    @property
    def pins(self) -> Pins:
        """Whose keys it trusts, as of that day."""
        return read_pins(self.node.identity.pin_file)

    @property
    def day(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(self.made))


def restore(
    file: Path, folder: Path, key: X25519PrivateKey, contents_of: Callable[[AnyNode], Contents],
    finish: Callable[[Restored], object],
) -> Restored:  # fmt: skip
    """A new folder. `finish` makes it the folder of a restored node, before anybody else sees it."""
    folder = folder.absolute()
    _require_new(folder)
    try:
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.restoring-", dir=folder.parent))
    except OSError as error:
        raise BackupError(f"{folder.parent} cannot be written: {error.strerror}") from None
    try:
        home = beside / folder.name
        home.mkdir(PRIVATE | 0o100)
        try:
            with file.open("rb") as source:
                made = _extract(Decrypting(source, key), home)
        except OSError as error:
            raise BackupError(f"{file.name} cannot be restored: {error.strerror or error}") from None
        for path in home.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        (home / "state").mkdir(mode=0o700, exist_ok=True)
        node = _listed(home, contents_of)
        found = Restored(node, Identity.load(node.identity.installed), made)
        mark = {"made": made, "at": int(time.time()), "confirmed_by": ""}
        replace_durably(node.state / RESTORED, json.dumps(mark) + "\n")
        finish(found)
        if folder.exists():
            folder.rmdir()  # empty, as it was looked at before
        home.rename(folder)
        force(folder.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Restored(read_node(folder), found.identity, made)


def _require_new(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise BackupError(
            f"{folder} is there already, and a backup replaces nothing: stop that node and move its folder away, or "
            "choose another one"
        )
    if not folder.parent.is_dir():
        raise BackupError(f"{folder.parent} is not there: make it first")


def _listed(home: Path, contents_of: Callable[[AnyNode], Contents]) -> AnyNode:
    """The node, all of whose files are on its list."""
    node = read_node(home)
    contents = contents_of(node)
    for path in paths(home):
        if contents.place(path) not in ("in", "database"):
            raise BackupError(
                f"the backup has {path!r}, which is in no backup of {node.role.with_article}: upgrade parley"
            )
    return node


def _extract(source: Decrypting, home: Path) -> int:
    """All files, then the index, which has to be of exactly these and signed by the node whose key is among them."""
    digests: dict[str, dict[str, Any]] = {}
    tail: dict[str, bytes] = {}
    with io.BufferedReader(source, 1 << 16) as buffered:
        try:
            with tarfile.open(fileobj=buffered, mode="r|") as archive:
                for entry in archive:
                    if len(digests) > MOST_FILES:
                        raise BackupError(f"the backup has more than {MOST_FILES} files")
                    if entry.name in (INDEX, SIGNATURE):
                        tail[entry.name] = _content(archive, entry, MOST_INDEX)
                    else:
                        digests[entry.name] = _put(archive, entry, home)
        except tarfile.TarError:
            raise BackupError("the backup makes no sense inside: take another one") from None
        source.drain()
    data, signature = tail.get(INDEX, b""), tail.get(SIGNATURE, b"")
    try:
        index = json.loads(data)
        role, made = Role(index["role"]), int(index["made"])
        right = index["form"] == LABEL and index["files"] == digests and made > 0
    except (ValueError, KeyError, TypeError):
        right = False
    if not right:
        raise BackupError("the backup's index is not of what is in it: take another one")
    identity = Identity.load(home / _current(home))
    if index["node"] != identity.name.uri or identity.name.role is not role:
        raise BackupError("the backup's index is of another node than its key")
    if not signatures.signed_by(identity.pin, LABEL, data, signature):
        raise BackupError("the backup is not signed with the key that is in it: somebody else has made it")
    return made


def _current(home: Path) -> str:
    """The link, from its text: to a folder of this backup and nowhere else."""
    link = home / CURRENT
    try:
        text = link.read_text()
    except (OSError, UnicodeDecodeError):
        raise BackupError("the backup has no identity in use: take one of a node that has a certificate") from None
    parts = PurePosixPath(text).parts
    if len(parts) != 2 or parts[0] != "identities" or parts[1].startswith(".") or not (link.parent / text).is_dir():
        raise BackupError("the backup's identity in use is none that is in it: take another one")
    link.unlink()
    link.symlink_to(text)
    return f"identity/{text}"


def _put(archive: tarfile.TarFile, entry: tarfile.TarInfo, home: Path) -> dict[str, Any]:
    """A plain new file below the folder, mode 600, on the disk."""
    parts = PurePosixPath(entry.name).parts
    if not entry.isreg() or not parts or entry.name.startswith("/") or ".." in parts or "\0" in entry.name:
        raise BackupError(f"the backup has {entry.name!r}, which is no file of a node")
    target = home.joinpath(*parts)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    source = archive.extractfile(entry)
    assert source is not None
    found = hashlib.sha256()
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
        while piece := source.read(1 << 16):
            found.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return {"sha256": found.hexdigest(), "size": entry.size}


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo, most: int) -> bytes:
    source = archive.extractfile(entry) if entry.isreg() and entry.size <= most else None
    if source is None:
        raise BackupError("the backup's index makes no sense: take another one")
    return source.read()


def write_head(ledger: Path) -> None:
    """Of a ledger that comes without one: the position of its last entry."""
    with closing(sqlite3.connect(ledger)) as database:
        found = database.execute("SELECT sequence, digest FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
    if found is None:
        raise BackupError("the ledger in the backup is empty: take another backup")
    replace_durably(ledger.with_name(ledger.name + ".head"), f"{found[0]}:{found[1]}\n")


@dataclass(frozen=True)
class Mark:
    """That a folder comes from a backup."""

    made: int
    """Seconds since 1970, as `at`: when the backup was made and put back."""
    at: int
    confirmed_by: str


def mark_of(node: Node) -> Mark | None:
    """None for a folder that was never restored."""
    path = node.state / RESTORED
    try:
        return Mark(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        raise BackupError(f"{path} cannot be read: restore the backup again, into another folder") from None


def require_confirmed(node: Node) -> None:
    """Refuse to start on pins and a policy of the day of a backup, before somebody has compared them."""
    mark = mark_of(node)
    if mark is not None and not mark.confirmed_by:
        day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(mark.made))
        raise BackupError(
            f"this node was restored: its pins and its policy are those of {day} UTC. Compare both with what holds "
            f"now, then `parley restore --confirm {node.folder} --by NAME`"
        )


def confirm(node: Node, by: str) -> Mark:
    """Somebody answers for it that pins and policy are those that hold now."""
    mark = mark_of(node)
    if mark is None:
        raise BackupError(f"{node.folder} was not restored from a backup: there is nothing to confirm")
    if not by.strip() or not by.isprintable() or len(by) > 80:
        raise BackupError("--by needs the name of the person who has compared them, on one line")
    found = Mark(mark.made, mark.at, by)
    replace_durably(node.state / RESTORED, json.dumps(vars(found)) + "\n")
    return found
