"""Adding shares and opening a noised sum, once, as a two-phase commit between the two servers.

Per (run, round): each server holds one share of every contributor's vector. Before any noise is touched the two agree
on the set of contributors (same party, same upload) and on the noise's position, runs side by side one after another:
server A holds its place from saying it to taking it, server B lets what A took first come first. Each then adds its
shares and its share of the noise and stores the result, with a signed statement of it, as prepared. When both have said
so, each marks its own as committed, and only then hands it out. The same request again returns the stored bytes;
another request for the same (run, round) is refused: noising a sum twice, or opening two sets of one round, would let
an observer average or subtract.

The noise is what the run's parts say (parley.mpc.parts): shares of a joint sample out of the pool, this server's own
samples, or both. Own ones are drawn in the opening that they are for and leave with the share that is stored: a sum
that is noised anew gets new ones. Where nothing is joint no pool is asked and no noise session is needed.

After a crash the two compare what they have kept:

    both prepared, or one committed and the other prepared    it is committed on both
    one prepared, the other nothing                           it was never released: discarded, and noised anew, at
                                                              most MOST_NOISINGS times in all
    one committed, the other nothing; different openings      no crash leaves that, only an old snapshot: lost

and refuse each other when either has fewer commits than it is known to have had.

The other server's word never makes a share again: what was committed here stays, whatever it says. A share that was
prepared only, which nobody has seen, may be made again, for a crash of either leaves that; a server that knew something
of its noise could use such crashes to choose, so each server counts on its own disk how often it comes to that.
"""

import contextlib
import hashlib
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parley.aggregator.hello import Hello, greet
from parley.aggregator.opening_store import Counts, Opened, OpeningStore, Phase, RefusedError, Stored
from parley.aggregator.pool import NoisePool, Reservation
from parley.aggregator.request import Request
from parley.mpc import crash
from parley.mpc.channel import Channel
from parley.mpc.clear import OwnNoise
from parley.mpc.errors import FrameError, MpcError, PeerError
from parley.mpc.history import Draft, Sign, opening_id, unsigned
from parley.mpc.packing import BLOCK_WORDS
from parley.mpc.randomness import SEED_BYTES, Csprng, random_bytes
from parley.mpc.ring import add_expanded
from parley.mpc.steps import Steps

Words = NDArray[np.uint64]
Share = Words | bytes | Callable[[Words], None]
"""A vector, the 32 bytes that one expands from, or what adds one to a sum."""
POSITION = struct.Struct("<Q")
NO_EPOCH = bytes(16)
MOST_NOISINGS = 4
"""Of one round: the first, and three more."""


class TooFewError(RefusedError):
    """Fewer parties than the run asks for have contributed to both servers: nothing was opened."""

    def __init__(self, parties: tuple[str, ...], needed: int) -> None:
        super().__init__(f"{len(parties)} parties contributed to both servers, the run needs {needed}")
        self.parties = parties


class RoundLostError(MpcError):
    """One server has a result for this round and the other lost its part: the round can never be opened."""


class NoisedTooOftenError(RoundLostError):
    """The noise of a round has come to nothing too often: crashes do not do that, a server that chooses would."""


class RolledBackError(MpcError):
    """A server has forgotten commits that it had made: it runs on an old snapshot, and its runs have to end."""


@dataclass
class Contributions:
    """One server's shares of one round, as they arrive."""

    dimension: int
    shares: dict[str, tuple[bytes, Share]] = field(default_factory=dict)
    """Party -> digest of its whole upload (both halves), this server's share."""

    def add(self, party: str, upload_digest: bytes, share: Share) -> None:
        """The same upload again is fine; another is refused."""
        if not party or "\n" in party:
            raise RefusedError("a party's name is one line of text")
        if isinstance(share, bytes) and len(share) != SEED_BYTES:
            raise RefusedError(f"{party}: a seed of {SEED_BYTES} bytes was due, got {len(share)}")
        if isinstance(share, np.ndarray):
            share = share if share.flags.writeable else share.copy()  # it will be erased
            if share.shape != (self.dimension,) or share.dtype != np.uint64:
                raise RefusedError(
                    f"{party}: a share of uint64[{self.dimension}] was due, got {share.dtype}{list(share.shape)}"
                )
        held = self.shares.get(party)
        if held is None:
            self.shares[party] = (upload_digest, share)
        elif held[0] != upload_digest:
            raise RefusedError(f"{party} has uploaded something else for this round before")

    def erase(self) -> None:
        """Overwrite and drop every share; what is elsewhere is erased there."""
        for _, share in self.shares.values():
            if isinstance(share, np.ndarray):
                share[:] = 0
        self.shares.clear()


def summed(dimension: int, shares: Iterable[Share]) -> Words:
    """In the memory of one vector, however many there are."""
    total = np.zeros(dimension, np.uint64)
    for share in shares:
        if isinstance(share, bytes):
            add_expanded(total, share)
        elif isinstance(share, np.ndarray):
            total += share
        else:
            share(total)
        crash.point("aggregator.adding")
    return total


class Aggregator:
    """One server's part in opening sums."""

    def __init__(
        self, role: int, pool: NoisePool, store: OpeningStore, timeout_seconds: float = 60.0,
        covert: NoisePool | None = None,
    ) -> None:  # fmt: skip
        self._role, self._store, self._timeout_seconds = role, store, timeout_seconds
        self._pool, self._covert = pool, covert
        self._guard = threading.Lock()
        self._busy: set[str] = set()
        self.own = OwnNoise(pool.tables)
        """This server's own samples."""

    def open(
        self,
        channel: Channel,
        request: Request,
        contributions: Contributions,
        agreed: Callable[[int], None] = lambda again: None,
        sign: Sign = unsigned,
    ) -> Opened:
        """Agree with the other server over `channel` (then `agreed` is called, with how often the round was noised
        before), add the noise, store it with a signed statement, return what may leave. Idempotent.
        """
        if request.lattice.scale_bits != self._pool.tables.format.scale_bits:
            raise RefusedError(
                f"the request's lattice counts on samples of scale 2^{request.lattice.scale_bits}, this server's are "
                f"of 2^{self._pool.tables.format.scale_bits}: the noise would have another size, use the same preset"
            )
        with self._alone(request.run, request.round):
            return self._open(channel, request, contributions, agreed, sign)

    def settle(self, channel: Channel, run: str, round_index: int) -> Opened | None:
        """What a crash may have left of one opening is committed or discarded on both servers; nothing is noised."""
        with self._alone(run, round_index):
            stored = self._store.find(run, round_index)
            digest = stored.request_digest if stored else bytes(32)
            settled, _ = self._compare(channel, run, round_index, stored, digest, NO_EPOCH, 0, True)
            return settled

    @contextlib.contextmanager
    def _alone(self, run: str, round_index: int) -> Iterator[None]:
        """One conversation per run at a time: what counts of commits may be compared by."""
        with self._guard:
            if run in self._busy:
                raise RefusedError(f"round {round_index} of run {run} is being opened: wait for that")
            self._busy.add(run)
        try:
            yield
        finally:
            with self._guard:
                self._busy.discard(run)

    def _open(
        self, channel: Channel, request: Request, contributions: Contributions, agreed: Callable[[int], None],
        sign: Sign,
    ) -> Opened:  # fmt: skip
        stored = self._store.get(request)
        shares = dict(contributions.shares)
        tags = {_tag(request, party, digest): party for party, (digest, _) in shares.items()}
        joint, pool = request.lattice.parts.joint, self._pool_of(request)
        epoch = self._epoch(pool, stored, request) if joint else random_bytes(len(NO_EPOCH))
        settled, theirs = self._compare(
            channel, request.run, request.round, stored, request.digest(), epoch, len(tags), False
        )
        if settled is not None:
            contributions.erase()
            return settled
        again = self._wasted(request)
        with pool.placing if joint and self._role == 0 else contextlib.nullcontext():
            current, position = (NO_EPOCH, 0) if not joint or epoch == NO_EPOCH else pool.position(0)
            if joint and (current == NO_EPOCH or {epoch, theirs.epoch} != {current}):
                raise PeerError("the two servers are not in the same noise session: try again")
            common = _common(tags, max(len(tags), theirs.count), position)
            parties, start = channel.run(common)
            if len(parties) < request.minimum_parties:
                raise TooFewError(parties, request.minimum_parties)
            # From here on the other server takes its place, whatever happens here: to stay behind would accuse it.
            if joint:
                place = pool.reserve(epoch, start, request.dimension)
            else:
                place = Reservation(_unlike(self._role, epoch, theirs.epoch), 0, request.dimension)
        try:
            agreed(again)
        except Exception:
            pool.release(place)
            raise
        try:
            opened = self._noised(request, parties, shares, place, sign)
            self._store.prepare(request, opened, theirs.mine)
        except Exception:
            self._store.waste(request.run, request.round)
            raise
        channel.run(_both_prepared(opened.opening))
        self._store.commit(request.run, request.round)
        contributions.erase()
        return opened

    def _wasted(self, request: Request) -> int:
        """How often this round was noised; by this server's own record, whatever the other one says of its own."""
        wasted = self._store.wasted(request.run, request.round)
        if wasted >= MOST_NOISINGS:
            raise NoisedTooOftenError(
                f"round {request.round} of run {request.run} was noised {wasted} times and came to nothing: no crashes "
                "do that, find out what the servers are running"
            )
        return wasted

    def _pool_of(self, request: Request) -> NoisePool:
        """By what the run's manifest says, on both servers alike: no sample of one is ever in the other."""
        if request.lattice.parts.security != "covert":
            return self._pool
        if self._covert is None:
            raise RefusedError("this server makes no audited noise: take another security in the manifest")
        return self._covert

    def _epoch(self, pool: NoisePool, stored: Stored | None, request: Request) -> bytes:
        """Of the noise there is, audited as the run says; what is stored may turn out to need none."""
        rate = request.lattice.parts.audit_rate
        audited = (rate, request.most_lanes) if rate else ()
        if stored is None:
            return pool.position(self._timeout_seconds, *audited)[0]
        try:
            return NO_EPOCH if stored.phase is Phase.committed else pool.position(0, *audited)[0]
        except PeerError:
            return NO_EPOCH

    def _noised(
        self, request: Request, parties: tuple[str, ...], shares: Mapping[str, tuple[bytes, Share]],
        place: Reservation, sign: Sign,
    ) -> Opened:  # fmt: skip
        total = summed(request.dimension, (shares[party][1] for party in parties))
        position = 0
        for noise in self._noise(request, place):
            part = slice(position, position + len(noise))
            total[part] = request.lattice.release_share(self._role, total[part], noise)
            noise[:] = 0
            position += len(noise)
        contributions = tuple((party, shares[party][0]) for party in parties)
        opening = opening_id(place.epoch, place.start, place.count, contributions)
        share = total.astype("<u8", copy=False).tobytes()
        del total  # of a large model, before the store copies the bytes
        before = self._store.statements(request.run, request.round - 1, 1)
        draft = Draft(
            round=request.round, query=request.query, contributions=contributions, opening=opening, epoch=place.epoch,
            start=place.start, length=place.count, share=hashlib.sha256(share).digest(),
            previous=before[0] if before else None, audits=place.audits,
        )  # fmt: skip
        return Opened(parties, share, opening, sign(draft))

    def _noise(self, request: Request, place: Reservation) -> Iterator[Words]:
        """This server's share of the noise, in pieces of one block: what is added to a piece takes its room."""
        parts = request.lattice.parts
        own = (np.zeros(min(BLOCK_WORDS, request.dimension - at), np.uint64) for at in _starts(request.dimension))
        found = _blocks(self._pool_of(request).collect(place, self._timeout_seconds) if parts.joint else own)
        return found if parts.shift is None else self._with_own(found, parts.shift)

    def _with_own(self, blocks: Iterator[Words], shift: int) -> Iterator[Words]:
        for block in blocks:
            self.own.add(block, shift)
            yield block

    def _compare(
        self, channel: Channel, run: str, round_index: int, stored: Stored | None, request_digest: bytes,
        epoch: bytes, count: int, settling: bool,
    ) -> tuple[Opened | None, Hello]:  # fmt: skip
        """Tell each other what is kept, and bring it to one state: committed on both, or nothing on both."""
        counts = self._store.counts(run)
        phase, opening = (stored.phase, stored.opened.opening) if stored else (Phase.nothing, bytes(16))
        nonce = Csprng.from_system().bytes(16)
        mine = Hello(
            role=self._role, nonce=nonce, settling=settling, request_digest=request_digest, phase=phase,
            opening=opening, epoch=epoch, count=count, mine=counts.mine, seen=counts.seen,
        )  # fmt: skip
        theirs, session = channel.run(greet(mine))
        channel.open_session(session, self._role)
        _check_counts(run, counts, theirs)
        what = f"round {round_index} of run {run}"
        kept = stored is not None and theirs.phase is not Phase.nothing
        if (kept or not settling) and theirs.request_digest != request_digest:
            raise RefusedError("the other server was asked to open something else")
        if {phase, theirs.phase} == {Phase.committed, Phase.nothing}:
            raise RoundLostError(
                f"{what}: one server holds a result and the other does not; it cannot be noised again, so the run has "
                "to end or go on without this round"
            )
        if kept and theirs.opening != opening:
            raise RoundLostError(f"{what}: the two servers hold shares of different openings")
        if theirs.mine > counts.seen and (settling or stored is not None):
            self._store.see(run, theirs.mine)
        if stored is None:
            return None, theirs
        if not kept:
            self._store.discard(run, round_index)
            return None, theirs
        if phase is Phase.prepared:
            self._store.commit(run, round_index)
        return stored.opened, theirs


def _starts(count: int) -> range:
    return range(0, count, BLOCK_WORDS)


def _blocks(pieces: Iterator[Words]) -> Iterator[Words]:
    """A pool may hand out all of it at once."""
    for piece in pieces:
        for start in _starts(len(piece)):
            yield piece[start : start + BLOCK_WORDS]


def _check_counts(run: str, counts: Counts, theirs: Hello) -> None:
    """A crash loses no commit that was spoken of: only what is on disk is."""
    if theirs.mine < counts.seen:
        raise RolledBackError(
            f"run {run}: the other server says {theirs.mine} commits and had said {counts.seen}: it was restored from "
            "an old snapshot, so the run has to end"
        )
    if theirs.seen > counts.mine:
        raise RolledBackError(
            f"run {run}: this server has {counts.mine} commits and the other one has seen {theirs.seen}: this server "
            "was restored from an old snapshot, so the run has to end"
        )


def _both_prepared(opening: bytes) -> Steps[None]:
    """Nothing is committed before both servers have their share on disk."""
    crash.point("aggregator.agreeing")
    (answer,) = yield [np.frombuffer(opening, np.uint8)]
    if answer.tobytes() != opening:
        raise FrameError("the two servers prepared different openings: try again")


def _unlike(role: int, mine: bytes, theirs: bytes) -> bytes:
    """What stands for the noise's place where none is joint: of this conversation and no other."""
    first, second = (mine, theirs) if role == 0 else (theirs, mine)
    return hashlib.sha256(b"parley own noise v1" + first + second).digest()[:16]


def _tag(request: Request, party: str, upload_digest: bytes) -> bytes:
    return hashlib.sha256(b"parley contribution v1" + request.digest() + upload_digest + party.encode()).digest()


def _common(tags: Mapping[bytes, str], count: int, position: int) -> Steps[tuple[tuple[str, ...], int]]:
    """The parties whose same upload both servers hold, in one order; and where the noise is taken from."""
    mine = POSITION.pack(position) + b"".join(sorted(tags)).ljust(32 * count, b"\0")
    (answer,) = yield [np.frombuffer(mine, np.uint8)]
    theirs = answer.tobytes()
    other = {theirs[i : i + 32] for i in range(POSITION.size, len(theirs), 32)}
    parties = tuple(sorted(tags[tag] for tag in tags.keys() & other))
    return parties, max(position, *POSITION.unpack_from(theirs))
