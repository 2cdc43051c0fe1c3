"""Evidence against an aggregation server, as a node keeps it: NODE/state/evidence, which is never cleared by itself.

    DIGEST.evidence    what convicts the server, as it was received or made; `parley evidence verify` reads it
    DIGEST.json        of whom it is, which runs it was held against here, and what this node's operator has answered
    waiting/DIGEST     at an aggregation server: what an audit would prove, from before the other one learns of it to
                       its verdict; one that outlives its process is judged when the next one starts

A file of the first kind without one of the second is what a crash left: whoever keeps evidence looks at it when it
starts. Until the operator has answered (`parley evidence answer`) this node takes part in no further run with that
server. Whether evidence holds is `parley.node.docket`'s affair.
"""

import contextlib
import datetime as dt
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parley.federation.errors import EvidenceFileError, IdentityError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.mpc import crash
from parley.privacy.durable import force, replace_durably

FOLDER, WAITING = "evidence", "waiting"
MOST_BYTES = 1 << 16
MOST_FILES = 1024
"""Each takes a server that was caught, and an operator who has answered before the next of that server."""
DIGEST = re.compile(r"[0-9a-f]{64}")
MOST_REASON = 300
Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, time and size of each record."""


@dataclass(frozen=True)
class Answer:
    """An operator's."""

    by: str
    reason: str
    at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True)
class Held:
    """Evidence that holds, and what came of it here."""

    digest: str
    """SHA-256 of the file."""
    server: NodeName
    """Whom it convicts."""
    incident: str
    """Digest of its key and session: one for all that can be shown of one session, however it is spelled."""
    at: str
    """When it came here, UTC, ISO 8601."""
    runs: tuple[str, ...] = ()
    """Held against these: at an aggregation server those that it ended, elsewhere those that are charged for it."""
    charged: bool = False
    """The ledger has them, where there is one, and the trail has this."""
    answer: Answer | None = None

    @property
    def pending(self) -> bool:
        return self.answer is None

    def __str__(self) -> str:
        return f"aggregator {self.server.name} did not follow the noise protocol (evidence {short(self.digest)})"


def waits_for_answer(pending: Sequence[Held]) -> str:
    """Why a node takes part in no further run with a server."""
    newest = pending[-1]
    return (
        f"{newest}: this node's operator has to answer it first, "
        f"`parley evidence answer NODE {newest.digest[:16]} --by NAME --reason TEXT`"
    )


def short(digest: str) -> str:
    """For a sentence."""
    return f"{digest[:16]}…"


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


class EvidenceFolder:
    """Of one node. Several processes may use it; everything is on the disk when a method returns."""

    def __init__(self, state: Path) -> None:
        self.path = state / FOLDER

    def keep(self, data: bytes) -> str:
        """The file alone, once; its digest."""
        digest = digest_of(data)
        path = self._file(digest)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.exists():
                if len(list(self.path.glob("*.evidence"))) >= MOST_FILES:
                    raise EvidenceFileError(f"{self.path} holds {MOST_FILES} files: move old ones elsewhere")
                replace_durably(path, data)
            force(self.path.parent)
        except OSError as error:
            raise EvidenceFileError(f"evidence cannot be kept ({error.strerror}): free the disk") from None
        crash.point("evidence.kept")
        return digest

    def hold(self, data: bytes) -> str:
        """What may turn out to be evidence; its digest."""
        digest = digest_of(data)
        try:
            waiting = self.path / WAITING  # a folder of its own: to whoever reads evidence nothing has changed
            waiting.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_durably(waiting / digest, data)
        except OSError as error:
            raise EvidenceFileError(f"what is audited cannot be kept ({error.strerror}): free the disk") from None
        crash.point("evidence.waiting")
        return digest

    def forget(self, digest: str) -> None:
        """What was held, now that there is a verdict. What stays in spite of this is judged once more."""
        with contextlib.suppress(OSError):
            (self.path / WAITING / digest).unlink()

    def waiting(self) -> dict[str, bytes]:
        """What has no verdict: of audits that are going on, or of a process that died."""
        found = {}
        for path in sorted((self.path / WAITING).glob("*")):
            if DIGEST.fullmatch(path.name):
                with path.open("rb") as file:
                    found[path.name] = file.read(MOST_BYTES + 1)
        return found

    def note(self, held: Held) -> None:
        """What is known of it, in place of what was."""
        try:
            replace_durably(self._record(held.digest), json.dumps(_body(held), indent=1) + "\n")
        except OSError as error:
            raise EvidenceFileError(f"evidence cannot be kept ({error.strerror}): free the disk") from None
        crash.point("evidence.recorded")

    def change(self, digest: str, **fields: Any) -> Held:
        """Of what is known of it, as it is now: a person's answer and a process's charge may come at once."""
        with self._alone():
            found = replace(self._held(self._record(digest)), **fields)
            self.note(found)
            return found

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def read(self, digest: str) -> bytes:
        """The file; an EvidenceFileError where it is not there, or not the one that was kept."""
        try:
            with self._file(digest).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError:
            data = b""
        if digest_of(data) != digest:
            raise EvidenceFileError(f"{digest}.evidence is missing or damaged: restore it from a backup")
        return data

    def all(self) -> list[Held]:
        """Whose record is there, oldest first."""
        found = [self._held(path) for path in self.path.glob("*.json") if DIGEST.fullmatch(path.stem)]
        return sorted(found, key=lambda held: (held.at, held.digest))

    def find(self, digest: str) -> Held | None:
        path = self._record(digest)
        return self._held(path) if path.exists() else None

    def unread(self) -> list[str]:
        """What a crash left without its record."""
        files = {path.stem for path in self.path.glob("*.evidence") if DIGEST.fullmatch(path.stem)}
        return sorted(files - {path.stem for path in self.path.glob("*.json")})

    def pending(self, servers: Collection[NodeName] | None = None) -> list[Held]:
        """What no operator has answered, against any of these; against anybody where none are given."""
        return [held for held in self.all() if held.pending and (servers is None or held.server in servers)]

    def against(self, manifest: Manifest) -> list[Held]:
        """What keeps this node from the run."""
        return self.pending(manifest.identities(Role.aggregator)) if self.path.exists() else []

    def stamp(self) -> Stamp:
        """Changes whenever a record here does: the folder's own time is too coarse where two come at once."""
        found = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.endswith(".json"):
                    is_now = entry.stat(follow_symlinks=False)
                    found.append((entry.name, is_now.st_ino, is_now.st_mtime_ns, is_now.st_size))
        return tuple(sorted(found))

    def answered(self, given: str, by: str, reason: str) -> Held:
        """With an operator's answer, which `change` makes hold; of a digest or its beginning. The first one stands."""
        for what, text, most in (("--by", by, 80), ("--reason", reason, MOST_REASON)):
            if not text.strip() or not text.isprintable() or len(text) > most:
                raise EvidenceFileError(f"{what} is one line of up to {most} characters: an answer needs it")
        held = self.named(given)
        if held.answer is not None:
            raise EvidenceFileError(f"{short(held.digest)} was answered by {held.answer.by} on {held.answer.at}")
        return replace(held, answer=Answer(by, reason, now()))

    def named(self, given: str) -> Held:
        """By its digest, or by the beginning of it."""
        wanted = given.strip().rstrip("…").lower()
        found = [held for held in self.all() if len(wanted) >= 8 and held.digest.startswith(wanted)]
        if len(found) != 1:
            known = ", ".join(short(held.digest) for held in self.all()) or "none"
            raise EvidenceFileError(f"{given[:80]!r} is not one piece of evidence here: it holds {known}")
        return found[0]

    def _held(self, path: Path) -> Held:
        try:
            return _read(path.stem, json.loads(path.read_text()))
        except (OSError, ValueError, KeyError, TypeError, IdentityError) as error:
            raise EvidenceFileError(
                f"evidence/{path.name} cannot be read ({type(error).__name__}): restore it from a backup"
            ) from None

    def _file(self, digest: str) -> Path:
        return self.path / f"{digest}.evidence"

    def _record(self, digest: str) -> Path:
        return self.path / f"{digest}.json"


def _body(held: Held) -> dict[str, Any]:
    answer = vars(held.answer) if held.answer is not None else None
    return {
        "server": held.server.uri, "incident": held.incident, "at": held.at, "runs": list(held.runs),
        "charged": held.charged, "answer": answer,
    }  # fmt: skip


def _read(digest: str, body: dict[str, Any]) -> Held:
    answer = Answer(**body["answer"]) if body["answer"] is not None else None
    return Held(
        digest, NodeName.parse(body["server"]), body["incident"], body["at"], tuple(body["runs"]), body["charged"],
        answer,
    )  # fmt: skip


@dataclass
class Newest:
    """What is in the folder, read again when it has changed: for whoever asks at every call."""

    folder: EvidenceFolder
    _stamp: Stamp | None = None
    _held: list[Held] = field(default_factory=list)

    def all(self) -> Sequence[Held]:
        stamp = self.folder.stamp()
        if stamp != self._stamp:
            self._held, self._stamp = self.folder.all(), stamp
        return self._held

    @property
    def pending(self) -> list[Held]:
        return [held for held in self.all() if held.pending]
