"""Adding shares and opening a noised sum, once.

Per (run, round): each server holds one share of every contributor's vector. Before any noise is touched the two agree
on the set of contributors (same party, same upload) and on the noise's position. Each then adds its shares and its
share of the noise, stores the result under the unique key (run, round), and only then hands it out. The same request
again returns the stored bytes; another request for the same (run, round) is refused: noising a sum twice, or opening
two sets of one round, would let an observer average or subtract.
"""

import hashlib
import sqlite3
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpc.channel import Channel
from mpc.errors import ConfigurationError, FrameError, MpcError, PeerError
from mpc.pool import NoisePool
from mpc.ring import Lattice, expand
from mpc.steps import Steps

Words = NDArray[np.uint64]
STATE = struct.Struct("<32s?16sQI")
"""Request digest, whether a result is stored, noise epoch, next noise position, number of contributions."""


class RefusedError(MpcError):
    """This server will not open what it was asked to open."""


class RoundLostError(MpcError):
    """One server has a result for this round and the other lost its part: the round can never be opened."""


@dataclass(frozen=True)
class Request:
    """What fixes an opening; every field is public and the same on both servers."""

    run: str
    round: int
    dimension: int
    lattice: Lattice
    minimum_parties: int

    def digest(self) -> bytes:
        if self.dimension < 1 or self.round < 0 or self.minimum_parties < 1:
            raise ConfigurationError("an opening needs a dimension, a round and a minimum number of parties")
        fields = (self.run, self.round, self.dimension, repr(self.lattice), self.minimum_parties)
        return hashlib.sha256(b"parley opening v1" + repr(fields).encode()).digest()


@dataclass(frozen=True)
class Opened:
    """One server's reply: never sent to the other server."""

    contributors: tuple[str, ...]
    share: bytes
    """uint64[dimension], little-endian, reduced modulo 2^lattice.opening_bits."""


class OpeningStore:
    """Durable results, one per (run, round), in SQLite. A result is on disk before anyone sees it."""

    def __init__(self, path: Path | str) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("PRAGMA secure_delete = ON")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS openings (run TEXT NOT NULL, round INTEGER NOT NULL, request BLOB NOT NULL, "
            "contributors TEXT NOT NULL, share BLOB NOT NULL, PRIMARY KEY (run, round)) STRICT"
        )

    def get(self, request: Request) -> Opened | None:
        """The stored reply; a different request for the same (run, round) is refused."""
        with self._lock:
            found = self._database.execute(
                "SELECT request, contributors, share FROM openings WHERE run = ? AND round = ?",
                (request.run, request.round),
            ).fetchone()
        if found is None:
            return None
        if found[0] != request.digest():
            raise RefusedError(
                f"round {request.round} of run {request.run} was opened with other parameters: a sum opens once"
            )
        return Opened(tuple(found[1].split("\n")) if found[1] else (), found[2])

    def put(self, request: Request, opened: Opened) -> None:
        """Store for good; the key's uniqueness is the last guard."""
        with self._lock:
            try:
                self._database.execute(
                    "INSERT INTO openings VALUES (?, ?, ?, ?, ?)",
                    (request.run, request.round, request.digest(), "\n".join(opened.contributors), opened.share),
                )
            except sqlite3.IntegrityError:
                raise RefusedError(f"round {request.round} of run {request.run} is open already") from None

    def close(self) -> None:
        self._database.close()


@dataclass
class Contributions:
    """One server's shares of one round, as they arrive."""

    dimension: int
    shares: dict[str, tuple[bytes, Words]] = field(default_factory=dict)
    """Party -> digest of its whole upload (both halves), this server's share."""

    def add(self, party: str, upload_digest: bytes, share: Words | bytes) -> None:
        """A share vector, or the 32 bytes it expands from. The same upload again is fine; another is refused."""
        if not party or "\n" in party:
            raise RefusedError("a party's name is one line of text")
        vector = expand(share, self.dimension) if isinstance(share, bytes) else share
        if vector.shape != (self.dimension,) or vector.dtype != np.uint64:
            raise RefusedError(
                f"{party}: a share of uint64[{self.dimension}] was due, got {vector.dtype}{list(vector.shape)}"
            )
        held = self.shares.get(party)
        if held is None:
            self.shares[party] = (upload_digest, vector)
        elif held[0] != upload_digest:
            raise RefusedError(f"{party} has uploaded something else for this round before")

    def erase(self) -> None:
        """Overwrite and drop every share."""
        for _, vector in self.shares.values():
            if vector.flags.writeable:
                vector[:] = 0
        self.shares.clear()


class Aggregator:
    """One server's part in opening sums."""

    def __init__(self, role: int, pool: NoisePool, store: OpeningStore, timeout_seconds: float = 60.0) -> None:
        self._role, self._pool, self._store, self._timeout_seconds = role, pool, store, timeout_seconds

    def open(self, channel: Channel, request: Request, contributions: Contributions) -> Opened:
        """Agree with the other server over `channel`, add the noise, store, return. Idempotent."""
        stored = self._store.get(request)
        agreed = channel.run(self._agree(request, contributions, stored))
        if stored is not None:
            return stored
        parties, epoch, start = agreed
        reservation = self._pool.reserve(epoch, start, request.dimension)
        total = np.zeros(request.dimension, np.uint64)
        for party in parties:
            total += contributions.shares[party][1]
        position = 0
        for noise in self._pool.collect(reservation, self._timeout_seconds):
            part = slice(position, position + len(noise))
            total[part] = request.lattice.release_share(self._role, total[part], noise)
            noise[:] = 0
            position += len(noise)
        opened = Opened(parties, total.astype("<u8").tobytes())
        self._store.put(request, opened)
        contributions.erase()
        return opened

    def _agree(
        self, request: Request, contributions: Contributions, stored: Opened | None
    ) -> Steps[tuple[tuple[str, ...], bytes, int]]:
        """Two exchanges: is this the same request, does either hold a result, where is the noise; then who
        contributed.
        """
        epoch, position = (bytes(16), 0) if stored else self._pool.position(self._timeout_seconds)
        tags = {_tag(request, party, digest): party for party, (digest, _) in contributions.shares.items()}
        count = 0 if stored else len(tags)
        mine = STATE.pack(request.digest(), stored is not None, epoch, position, count)
        (answer,) = yield [np.frombuffer(mine, np.uint8)]
        digest, other_stored, other_epoch, other_position, other_count = STATE.unpack(answer.tobytes())
        if digest != request.digest():
            raise RefusedError("the other server was asked to open something else")
        if other_stored != (stored is not None):
            raise RoundLostError(
                f"round {request.round} of run {request.run}: one server holds a result and the other does not; "
                "it cannot be noised again, so the run has to end or go on without this round"
            )
        if stored is not None:
            return stored.contributors, b"", 0
        if other_epoch != epoch:
            raise PeerError("the two servers are not in the same noise session: try again")
        if other_count > 1 << 20:
            raise FrameError("more than a million contributions announced")
        parties = yield from _common(tags, max(count, other_count))
        if len(parties) < request.minimum_parties:
            raise RefusedError(
                f"{len(parties)} parties contributed to both servers, the run needs {request.minimum_parties}"
            )
        return parties, epoch, max(position, other_position)


def _tag(request: Request, party: str, upload_digest: bytes) -> bytes:
    return hashlib.sha256(b"parley contribution v1" + request.digest() + upload_digest + party.encode()).digest()


def _common(tags: Mapping[bytes, str], count: int) -> Steps[tuple[str, ...]]:
    """The parties whose same upload both servers hold, in one order."""
    if count == 0:
        return ()
    mine = b"".join(sorted(tags)).ljust(32 * count, b"\0")
    (answer,) = yield [np.frombuffer(mine, np.uint8)]
    theirs = answer.tobytes()
    other = {theirs[i : i + 32] for i in range(0, len(theirs), 32)}
    return tuple(sorted(tags[tag] for tag in tags.keys() & other))
