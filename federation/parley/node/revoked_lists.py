"""Lists of revoked certificates on their way: from the coordinator with runs and rounds, or installed by hand.

Whoever passes one on vouches for nothing: the authority's signature does, and its number. A list that is not taken is
logged, of one peer every ten minutes at most, and the call that brought it goes on as if it had brought none.
"""

import hashlib
import threading
import time
from collections.abc import Callable

from parley.federation.errors import FederationError
from parley.federation.names import NodeName
from parley.node import authorization, logs, transport
from parley.node.credentials import NodeFolder, load_certificate
from parley.node.revocation import REVOKED_FILE, Revoked, keep
from parley.privacy.durable import stamp

QUIET_SECONDS = 600.0
log = logs.logger()


class RevokedLists:
    """Of one node; any thread may ask."""

    def __init__(self, folder: NodeFolder) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._stamp = ""
        self._held: Revoked | None = None
        self._looked_at = b""
        """Digest of the last list that came, whatever became of it."""
        self._said: dict[NodeName, float] = {}
        """Until when no more is said of a peer's lists, by the monotonic clock."""

    def newest(self) -> Revoked | None:
        """None where there is none, and where it cannot be read: then nobody is trusted, and nobody is told."""
        with self._lock:
            now = stamp(self._folder.path / REVOKED_FILE)
            if now != self._stamp:
                try:
                    self._held, self._stamp = self._folder.revoked(), now
                except FederationError:
                    self._held = None
            return self._held

    @property
    def number(self) -> int:
        held = self.newest()
        return held.number if held is not None else 0

    def newer_than(self, number: int) -> bytes:
        """For a peer that has that one, or none: 0."""
        held = self.newest()
        return held.data if held is not None and held.number > number else b""

    def take(self, data: bytes, source: NodeName) -> None:
        """If it is the authority's and newer."""
        digest = hashlib.sha256(data).digest()
        with self._lock:
            if not data or digest == self._looked_at:
                return
            self._looked_at = digest
        try:
            identity = self._folder.load()
            before = self.number
            taken = keep(self._folder.path, data, load_certificate(identity.authority, "the authority's certificate"))
        except (FederationError, OSError) as error:
            if isinstance(error, OSError):
                self._looked_at = b""  # such as a full disk: the same list is looked at again
            self._say(source, error)
            return
        if taken.number > before:
            log.warning("a list of revoked certificates was taken", peer=source, count=len(taken.entries))
            cut()

    def _say(self, source: NodeName, error: Exception) -> None:
        now = time.monotonic()
        with self._lock:
            if now < self._said.get(source, now):
                return
            self._said[source] = now + QUIET_SECONDS
        log.error("a list of revoked certificates is not taken", peer=source, error=error)


def cut() -> None:
    """What stands with a node whose key is revoked now, in this process."""
    transport.cut_revoked()
    authorization.cut_revoked()


class Watch:
    """Cuts what stands when a list was installed by hand, or by another process of the node."""

    def __init__(self, folder: NodeFolder, act: Callable[[], object] = cut) -> None:
        self._path, self._act = folder.path / REVOKED_FILE, act
        self._stamp = stamp(self._path)

    def look(self) -> None:
        if (now := stamp(self._path)) == self._stamp:
            return
        try:
            self._act()
            self._stamp = now
        except Exception as error:  # of a thread that nobody waits for: it is tried again at the next look
            log.error("what stands with revoked nodes was not cut", error=error)
