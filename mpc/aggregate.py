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
from mpc.randomness import SEED_BYTES, Csprng
from mpc.ring import Lattice, expand
from mpc.steps import Steps

Words = NDArray[np.uint64]
STATE = struct.Struct("<32s?16sQI")
"""Request digest, whether a result is stored, noise epoch (or the stored opening), next noise position, number of
contributions."""


GREETING = struct.Struct("<B16s")


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
    most_records: int
    """At most so many records' terms are in the sum, each at most `clip` long: what the range check needs."""
    clip: float

    def digest(self) -> bytes:
        """Over all fields; a request that makes no sense, or whose sum could leave the ring, has none."""
        self.lattice.check_range(self.most_records, self.clip)
        if self.dimension < 1 or self.round < 0 or self.minimum_parties < 1:
            raise ConfigurationError("an opening needs a dimension, a round and a minimum number of parties")
        fields = (
            self.run, self.round, self.dimension, repr(self.lattice), self.minimum_parties, self.most_records,
            self.clip,
        )  # fmt: skip
        return hashlib.sha256(b"parley opening v1" + repr(fields).encode()).digest()


@dataclass(frozen=True)
class Opened:
    """One server's reply: never sent to the other server."""

    contributors: tuple[str, ...]
    share: bytes
    """uint64[dimension], little-endian, reduced modulo 2^lattice.opening_bits."""
    opening: bytes
    """16 bytes that both servers' shares of one opening have in common: of its noise's place and its contributors."""


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
            "contributors TEXT NOT NULL, share BLOB NOT NULL, opening BLOB NOT NULL, PRIMARY KEY (run, round)) STRICT"
        )

    def get(self, request: Request) -> Opened | None:
        """The stored reply; a different request for the same (run, round) is refused."""
        with self._lock:
            found = self._database.execute(
                "SELECT request, contributors, share, opening FROM openings WHERE run = ? AND round = ?",
                (request.run, request.round),
            ).fetchone()
        if found is None:
            return None
        if found[0] != request.digest():
            raise RefusedError(
                f"round {request.round} of run {request.run} was opened with other parameters: a sum opens once"
            )
        return Opened(tuple(found[1].split("\n")) if found[1] else (), found[2], found[3])

    def put(self, request: Request, opened: Opened) -> None:
        """Store for good; the key's uniqueness is the last guard."""
        with self._lock:
            try:
                self._database.execute(
                    "INSERT INTO openings VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        request.run,
                        request.round,
                        request.digest(),
                        "\n".join(opened.contributors),
                        opened.share,
                        opened.opening,
                    ),
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
        if isinstance(share, bytes) and len(share) != SEED_BYTES:
            raise RefusedError(f"{party}: a seed of {SEED_BYTES} bytes was due, got {len(share)}")
        vector = expand(share, self.dimension) if isinstance(share, bytes) else share
        vector = vector if vector.flags.writeable else vector.copy()  # it will be erased
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
        self._guard = threading.Lock()
        self._opening: set[tuple[str, int]] = set()

    def open(self, channel: Channel, request: Request, contributions: Contributions) -> Opened:
        """Agree with the other server over `channel`, add the noise, store, return. Idempotent."""
        key = (request.run, request.round)
        if request.lattice.scale_bits != self._pool.tables.format.scale_bits:
            raise RefusedError(
                f"the request's lattice counts on samples of scale 2^{request.lattice.scale_bits}, this server's are "
                f"of 2^{self._pool.tables.format.scale_bits}: the noise would have another size, use the same preset"
            )
        with self._guard:
            if key in self._opening:
                raise RefusedError(f"round {request.round} of run {request.run} is being opened: wait for that")
            self._opening.add(key)
        try:
            return self._open(channel, request, contributions)
        finally:
            with self._guard:
                self._opening.discard(key)

    def _open(self, channel: Channel, request: Request, contributions: Contributions) -> Opened:
        stored = self._store.get(request)
        channel.open_session(channel.run(_greet(self._role)), self._role)
        shares = dict(contributions.shares)
        parties, epoch, start = channel.run(self._agree(request, shares, stored))
        if stored is not None:
            return stored
        reservation = self._pool.reserve(epoch, start, request.dimension)
        total = np.zeros(request.dimension, np.uint64)
        for party in parties:
            total += shares[party][1]
        position = 0
        for noise in self._pool.collect(reservation, self._timeout_seconds):
            part = slice(position, position + len(noise))
            total[part] = request.lattice.release_share(self._role, total[part], noise)
            noise[:] = 0
            position += len(noise)
        channel.run(_both_have_it_all())
        opening = hashlib.sha256(b"parley opening place v1" + epoch + repr((start, parties)).encode()).digest()[:16]
        opened = Opened(parties, total.astype("<u8").tobytes(), opening)
        self._store.put(request, opened)
        contributions.erase()
        return opened

    def _agree(
        self, request: Request, shares: Mapping[str, tuple[bytes, Words]], stored: Opened | None
    ) -> Steps[tuple[tuple[str, ...], bytes, int]]:
        """Is this the same request, does either hold a result, where is the noise; then who contributed."""
        epoch, position = (stored.opening, 0) if stored else self._pool.position(self._timeout_seconds)
        tags = {_tag(request, party, digest): party for party, (digest, _) in shares.items()}
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
            if other_epoch != epoch:
                raise RoundLostError(
                    f"round {request.round} of run {request.run}: the two servers hold shares of different openings"
                )
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


def _greet(role: int) -> Steps[bytes]:
    """A fresh id for this conversation, from both servers, who must have different roles."""
    mine = GREETING.pack(role, Csprng.from_system().bytes(16))
    (answer,) = yield [np.frombuffer(mine, np.uint8)]
    theirs = answer.tobytes()
    if GREETING.unpack(theirs)[0] != 1 - role:
        raise FrameError(f"both ends of the conversation claim role {role}: one must be 0 (A), the other 1 (B)")
    ordered = (mine + theirs) if role == 0 else (theirs + mine)
    return hashlib.sha256(b"parley opening conversation v1" + ordered).digest()[:16]


def _both_have_it_all() -> Steps[None]:
    """Nothing is stored before both servers have their share of the noise: else a session that ends in between would
    leave one with a result and the other without.
    """
    yield [np.ones(1, np.uint8)]


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
