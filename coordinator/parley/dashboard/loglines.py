"""The newest lines of a node's log (`log.jsonl`) or, where it keeps none, of its audit trail; each field checked again.

What was checked when it was written is checked when it is read: another hand may have been at the file, and this page
is shown to people. Lines grow at the end and the log is rotated; both are followed.
"""

import contextlib
import json
import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.dashboard.views import LogLine, LogView
from parley.node import facts

KEPT = 400
READ_BYTES = 256 << 10
"""From the end of a file that is opened for the first time."""
STALE_SECONDS = 60.0
"""A log that is this much older than the trail is one that the node no longer keeps."""
LEVELS = ("debug", "info", "warning", "error")
BAD_NEWS = ("refused", "failed", "stalled", "short", "missing", "mended", "lost")
LONGEST_MESSAGE = 300
LAST = ("peer_event", "peer_events")


@dataclass
class _Position:
    inode: int = 0
    offset: int = 0
    rest: bytes = b""


class LogFile:
    """Follows one node's lines; one per process, shared by all pages."""

    def __init__(self, state: Path) -> None:
        self._candidates = (state / "log.jsonl", state / "trail.jsonl")
        self._lines: deque[LogLine] = deque(maxlen=KEPT)
        self._count = 0
        self._position = _Position()
        self.source = ""

    @property
    def count(self) -> int:
        """How many lines there have been; a page remembers it and asks for what came after."""
        return self._count

    def refresh(self) -> None:
        """Read what was appended since."""
        found = {}
        for path in self._candidates:
            with contextlib.suppress(OSError):
                found[path] = path.stat()
        if not found:
            self.source = ""
            return
        newest = max(status.st_mtime for status in found.values())
        path, status = next(each for each in found.items() if each[1].st_mtime > newest - STALE_SECONDS)
        if path.name != self.source:
            self.source, self._position = path.name, _Position()
            self._lines.clear()
        self._read(path, status)

    def _read(self, path: Path, status: os.stat_result) -> None:
        at = self._position
        if status.st_ino != at.inode or status.st_size < at.offset:
            start = max(0, status.st_size - READ_BYTES) if at.inode == 0 else 0
            at = self._position = _Position(status.st_ino, start)
            skip = start > 0
        else:
            skip = False
        if status.st_size == at.offset:
            return
        try:
            with path.open("rb") as file:
                file.seek(at.offset)
                data = file.read(4 * READ_BYTES)
        except OSError:
            return
        at.offset += len(data)
        *whole, at.rest = (at.rest + data).split(b"\n")
        at.rest = at.rest[-READ_BYTES:]
        for raw in whole[1:] if skip else whole:
            line = parsed(raw)
            if line is not None:
                self._lines.append(line)
                self._count += 1

    def since(self, count: int) -> list[LogLine]:
        """The lines after the first `count`, as far as they are kept."""
        fresh = self._count - count
        return list(self._lines)[-fresh:] if fresh > 0 else []

    def view(self, words: str = "", level: str = "") -> LogView:
        """The newest lines that match, newest last."""
        return LogView(self.source, tuple(line for line in self._lines if matches(line, words, level)), self._count)


def matches(line: LogLine, words: str, level: str) -> bool:
    """Every word somewhere in the line, and at least that level."""
    if level in LEVELS and LEVELS.index(line.level) < LEVELS.index(level):
        return False
    text = " ".join([line.event, line.level, *(f"{name}={value}" for name, value in line.fields)]).lower()
    return all(word in text for word in words.lower().split())


def parsed(raw: bytes) -> LogLine | None:
    """A line of either file; whatever is not a listed fact is left out."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    trail = isinstance(body.get("fields"), dict)
    event, at = body.get("event"), body.get("time")
    if type(event) is not str or not facts.words(event) or type(at) is not str or len(at) > 40:
        return None
    given: dict[str, Any] = body["fields"] if trail else body
    listed = facts.TRAIL_FACTS if trail else facts.FACTS
    fields = []
    for name, value in given.items():
        if name in ("time", "level", "event", "role", "name"):
            continue
        if name == "message" and not trail and type(value) is str:
            fields.append(("message", value[:LONGEST_MESSAGE]))
            continue
        check = listed.get(name)
        fact = check(value) if check is not None else None
        if fact is not None:
            fields.append((name, _spelled(fact)))
    fields.sort(key=lambda each: each[0] in LAST)  # whoever reads along looks for the run and the round
    level = body.get("level")
    if level not in LEVELS:
        level = "warning" if any(word in event for word in BAD_NEWS) else "info"
    return LogLine(at, level, event, tuple(fields))


def _spelled(fact: facts.Fact) -> str:
    if isinstance(fact, list):
        return ", ".join(str(each) for each in fact)
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    return f"{fact:.6g}" if isinstance(fact, float) else str(fact)
