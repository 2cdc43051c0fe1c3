"""The audit trail of a node: what it did, in one hash-chained file that its owner can hand to an auditor.

    {"sequence":7,"time":"2026-…Z","node":"parley://cardio/party/hospital-a","event":"round.answered",
     "fields":{"round":3,"run":"heart-1"},"previous":"…","hash":"…"}

`hash` is SHA-256 over LABEL and the line without it, so every byte counts. An event is known to others by its id,
`role/name/sequence-hash`, sixteen digits of it; a peer that hears the id writes it down as `peer_event` or among
`peer_events`, and two trails that are laid side by side (`references`) show whether either was rewritten since. Fields
are those of `facts`; anything else is refused here and not dropped, for an audit log must not lose facts silently.

A cut at the end of a line breaks no hash: against that there is an anchor, a `head` that somebody else kept, and the
peers' references. Appends reach the kernel before they return; the disk at once where `durable`, otherwise within a
second of appending.
"""

import contextlib
import datetime as dt
import fcntl
import hashlib
import json
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

from parley.federation.errors import IdentityError, TrailError, TrailRefusedError
from parley.federation.names import NodeName
from parley.node.facts import TRAIL_FACTS, Fact
from parley.privacy.head import START, Head

LABEL = b"parley trail 1\n"
EVENT = re.compile(r"[a-z]{1,24}(\.[a-z_]{1,24}){0,3}")
HASH_FIELD = b',"hash":"'
TAIL = len(HASH_FIELD) + 64 + len(b'"}\n')
TOLD = {"peer_event", "peer_events", "epoch"}
"""What is laid beside other nodes' trails."""
NEEDED = {"evidence.kept": {"digest", "peer"}, "evidence.answered": {"digest"}}
AUDITED = {"run", "manifest", "round"}
COUNTED = ({"server", "audits_made", "audits_passed"}, {"audits"})
KEYS = ["sequence", "time", "node", "event", "fields", "previous", "hash"]
SYNC_SECONDS = 1.0
ID_DIGITS = 16
MOST_LINE = 1 << 16
_to_disk: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
"""A Mac has the second only; a node does not run there, but its operator may read and sign."""
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True)
class Event:
    """One line."""

    sequence: int
    time: str
    node: str
    event: str
    fields: Mapping[str, Any]
    hash: str

    @property
    def id(self) -> str:
        """How peers refer to it."""
        return event_id(NodeName.parse(self.node), self.sequence, self.hash)


def event_id(node: NodeName, sequence: int, digest: str) -> str:
    return f"{node.role}/{node.name}/{sequence}-{digest[:ID_DIGITS]}"


@dataclass(frozen=True)
class Verified:
    """A trail that is whole."""

    path: Path
    node: str
    """"" for one without an entry."""
    head: Head
    incomplete_bytes: int
    """Of a last line that a crash cut short; the node mends that when it starts."""
    ids: frozenset[str] = field(repr=False)
    references: tuple[tuple[int, str], ...] = field(repr=False)
    """Which entry refers to which event of a peer."""
    notes: tuple[Event, ...] = field(default=(), repr=False)
    """What it says of audits and of evidence."""

    @property
    def name(self) -> str:
        """As event ids begin."""
        name = NodeName.parse(self.node)
        return f"{name.role}/{name.name}"


class Trail:
    """An open trail. Threads may share it, and several processes of the node may have it open."""

    observer: ClassVar[Callable[[str, Mapping[str, Fact]], None] | None] = None
    """Hears of every event of this process once it is written: for metrics, which count nothing else."""

    def __init__(self, path: Path, node: NodeName, handle: int) -> None:
        self.path, self.node = path, node
        self._handle, self._uri = handle, node.uri
        self._lock = threading.Lock()
        self._head, self._size = START, 0
        self._synced = time.monotonic()

    @classmethod
    def open(cls, path: Path, node: NodeName) -> Self:
        """Verify what is there, mend a last line that a crash cut short, and be ready to append."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise TrailError(f"{path.name} cannot be opened ({error.strerror}): check its folder") from None
        trail = cls(path, node, handle)
        try:
            if stat.S_IMODE(os.fstat(handle).st_mode) != 0o600:
                os.fchmod(handle, 0o600)
            with trail._exclusive():
                lost = trail._follow()
            if lost:
                trail.append("trail.mended", bytes=lost, durable=True)
        except BaseException:
            trail.close()
            raise
        return trail

    def append(self, event: str, *, durable: bool = False, **fields: object) -> str:
        """Write one event and give its id; on disk when it returns if `durable`, as admissions and ends have to be."""
        if EVENT.fullmatch(event) is None:
            raise TrailRefusedError(f"event {event[:40]!r} is not a name: use words joined by dots")
        checked = _checked(fields)
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        with self._lock, self._exclusive():
            if os.fstat(self._handle).st_size != self._size:
                self._follow()  # another process of this node has written
            sequence = self._head.sequence + 1
            body = {
                "sequence": sequence, "time": now, "node": self._uri, "event": event, "fields": checked,
                "previous": self._head.digest,
            }  # fmt: skip
            text = _encode(body).encode()
            digest = _digest(text)
            line = text[:-1] + HASH_FIELD + digest.encode() + b'"}\n'
            if len(line) > MOST_LINE:
                raise TrailRefusedError(f"event {event} is over 64 KiB: split it")
            self._write(line)
            self._head, self._size = Head(sequence, digest), self._size + len(line)
            if durable or time.monotonic() - self._synced >= SYNC_SECONDS:
                self._sync()
        if Trail.observer is not None:
            Trail.observer(event, checked)
        return event_id(self.node, sequence, digest)

    def head(self) -> Head:
        """To be kept elsewhere, as an anchor; prints as sequence:hash."""
        with self._lock:
            return self._head

    def close(self) -> None:
        """On disk, then released."""
        with self._lock:
            if self._handle >= 0:
                with contextlib.suppress(OSError):
                    _to_disk(self._handle)
                os.close(self._handle)
                self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        if self._handle < 0:
            raise TrailError(f"{self.path.name} was closed: open it again")
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _write(self, line: bytes) -> None:
        try:
            if os.write(self._handle, line) == len(line):
                return
            problem = "the disk is full"
        except OSError as error:
            problem = str(error.strerror)
        with contextlib.suppress(OSError):
            os.ftruncate(self._handle, self._size)
        raise TrailError(f"{self.path.name} cannot be written ({problem}): free the disk, nothing goes on unrecorded")

    def _sync(self) -> None:
        try:
            _to_disk(self._handle)
        except OSError as error:
            raise TrailError(f"{self.path.name} cannot be written ({error.strerror}): check the disk") from None
        self._synced = time.monotonic()

    def _follow(self) -> int:
        """Catch up with the file; an incomplete last line is removed, and its length returned."""
        size = os.fstat(self._handle).st_size
        if size < self._size:
            raise TrailError(f"{self.path.name} became shorter while it was open: restore it from a backup")
        with os.fdopen(os.dup(self._handle), "rb") as file:
            file.seek(self._size)
            for event, length in _events(file, self._head, self.path.name):
                if event.node != self._uri:
                    raise TrailError(f"{self.path.name} is the trail of {event.node}: every node has its own")
                self._head, self._size = Head(event.sequence, event.hash), self._size + length
        lost = size - self._size
        if lost:
            os.ftruncate(self._handle, self._size)
            self._sync()
        return lost


def says(path: Path, event: str, digest: str, **fields: str) -> bool:
    """Whether a trail has this of a piece of evidence: what a crash cut off is not written twice."""
    wanted = {"digest": digest, **fields}
    return any(each.event == event and wanted.items() <= each.fields.items() for each in verify(path).notes)


def verify(path: Path, anchor: Head | None = None) -> Verified:
    """Check every line, and that the anchor is among them; a TrailError says what is wrong first."""
    ids, references, notes = [], [], []
    head, node, size, anchored = START, "", 0, anchor is None or anchor == START
    try:
        with path.open("rb") as file:
            for event, length in _events(file, START, path.name):
                if node and event.node != node:
                    raise TrailError(f"{path.name}: entry {event.sequence} is of another node, {event.node[:200]!r}")
                head, node, size = Head(event.sequence, event.hash), event.node, size + length
                anchored = anchored or head == anchor
                ids.append(event.id)
                if event.fields.keys() & TOLD or event.event in NEEDED:
                    _require_facts(event, path.name)
                heard = [event.fields["peer_event"]] if "peer_event" in event.fields else []
                heard += event.fields.get("peer_events", [])
                references += [(event.sequence, each) for each in heard]
                if "epoch" in event.fields or event.event in NEEDED:
                    notes.append(event)
            incomplete = file.seek(0, os.SEEK_END) - size
    except OSError as error:
        raise TrailError(f"{path} cannot be read: {error.strerror}") from None
    except IdentityError as error:
        raise TrailError(f"{path.name} is no node's: {error}") from None
    if anchor is not None and not anchored:
        what = "was cut" if anchor.sequence > head.sequence else "was rewritten"
        raise TrailError(f"{path.name} {what}: entry {anchor.sequence} is not the one of the anchor; restore it")
    return Verified(path, node, head, incomplete, frozenset(ids), tuple(references), tuple(notes))


def events_in(path: Path) -> Iterator[Event]:
    """Of a whole trail, in order, each link checked before the event is given; a TrailError says what is wrong."""
    node = ""
    try:
        with path.open("rb") as file:
            for event, _ in _events(file, START, path.name):
                if node and event.node != node:
                    raise TrailError(f"{path.name}: entry {event.sequence} is of another node, {event.node}")
                node = event.node
                yield event
    except OSError as error:
        raise TrailError(f"{path} cannot be read: {error.strerror}") from None


@dataclass(frozen=True)
class CrossCheck:
    """Whether what nodes say about each other's events is so."""

    checked: int
    absent: tuple[str, ...]
    """One line per reference to an event that the peer's trail does not have."""
    unchecked: int
    """References to nodes whose trails were not given."""


def cross_check(trails: Sequence[Verified]) -> CrossCheck:
    """Follow every reference between these trails."""
    by_name: dict[str, Verified] = {}
    for trail in trails:
        if trail.node and by_name.setdefault(trail.name, trail) is not trail:
            raise TrailError(f"two trails are of {trail.name}: give each node once")
    checked, unchecked, absent = 0, 0, []
    for trail in by_name.values():
        for sequence, reference in trail.references:
            peer = by_name.get(reference.rpartition("/")[0])
            if peer is None:
                unchecked += 1
                continue
            checked += 1
            if reference not in peer.ids:
                absent.append(
                    f"entry {sequence} of {trail.name} refers to {reference}, which {peer.name} does not have"
                )
    return CrossCheck(checked, tuple(absent), unchecked)


def _checked(fields: Mapping[str, object]) -> dict[str, Fact]:
    found: dict[str, Fact] = {}
    for name, value in fields.items():
        if value is None:
            continue
        check = TRAIL_FACTS.get(name)
        fact = check(value) if check is not None else None
        if fact is None:
            why = "is not among the public facts" if check is None else "is not what it should be"
            raise TrailRefusedError(f"field {name} {why} (parley.node.facts): nothing was recorded")
        found[name] = fact
    return found


def _require_facts(event: Event, name: str) -> None:
    """Whoever hands in a trail has made its chain, and may have written anything: nodes write facts alone."""
    have = event.fields.keys()
    whole = have >= NEEDED.get(event.event, set())
    if "epoch" in have:
        whole = have >= AUDITED and any(have >= each for each in COUNTED)
    try:
        if whole and _checked(event.fields) == event.fields:
            return
    except TrailRefusedError:
        pass
    raise TrailError(f"{name}: entry {event.sequence} is not what a node writes: ask its operator for the trail")


def _digest(text: bytes) -> str:
    return hashlib.sha256(LABEL + text).hexdigest()


def _events(file: BinaryIO, after: Head, name: str) -> Iterator[tuple[Event, int]]:
    """Complete lines in order with their lengths, each link checked on the way."""
    previous, expected = after.digest, after.sequence + 1
    for line in file:
        if not line.endswith(b"\n"):
            return
        body = _parsed(line)
        if body is None or line[-TAIL:] != HASH_FIELD + body["hash"].encode() + b'"}\n':
            raise TrailError(f"{name}: line {expected} is not an entry of a trail: restore it from a backup")
        if body["sequence"] != expected:
            raise TrailError(f"{name}: entry {expected} is missing: restore it from a backup")
        if body["previous"] != previous or body["hash"] != _digest(line[:-TAIL] + b"}"):
            raise TrailError(f"{name}: entry {expected} is not what was written: restore it from a backup")
        previous, expected = body["hash"], expected + 1
        event = Event(body["sequence"], body["time"], body["node"], body["event"], body["fields"], body["hash"])
        yield event, len(line)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    right = isinstance(body, dict) and list(body) == KEYS and isinstance(body["fields"], dict)
    return body if right and all(isinstance(body[key], str) for key in ("time", "node", "event", "hash")) else None
