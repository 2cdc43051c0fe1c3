"""Noise under audit: a server that does not follow the protocol in an audited batch is caught, with proof.

As parley.mpc.session.Session, batch by batch, but each batch has transfers and a tape of its own, to which both servers
commit before it begins. Each audits a batch with a probability that both know, by a coin of its own, and the other one
learns which only after it has signed what it did: then the auditor has its seed, and computes all its messages again,
beside the next batch. An audited batch is thrown away by both. Lanes of later batches stay here until that replay's
verdict is in.

One batch (docs/noise-protocol.md says why):
  1  commitment to seed, delta and salt; digest of a witness; the question R; trees
  2  the batch itself, as far as the shares of the accept bits, which stay here
  3  seal of the accept share; witness and opening, each masked; a nonce
  4  signature of the batch's record
  5  no audit: the other's witness, accept share and salt. Audit: says so, with what only the opened seed can tell
"""

import hmac
import struct
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypeVar

import numpy as np

from parley.mpc import crash, group
from parley.mpc.acceptance import binomial_range, check_accepted
from parley.mpc.audit import Audits, Hold, held_nowhere
from parley.mpc.base_ot import BaseTransfers, transfer
from parley.mpc.batch_record import KEY_BYTES, NONCE_BYTES, RATES, FrameTags, Head, Record, Seal, Terms
from parley.mpc.channel import SESSION_BYTES, Channel, Traffic
from parley.mpc.errors import (
    ConfigurationError,
    FrameError,
    PeerCheatedError,
    SealBrokenError,
    TablesDifferError,
    TermsDifferError,
)
from parley.mpc.evidence import MOST_LANES, Evidence, Verify
from parley.mpc.handover import (
    DIGEST_BYTES,
    SALT_BYTES,
    SEED_BYTES,
    WITNESS_BYTES,
    Masks,
    Opening,
    digest,
    question,
    witness_digest,
)
from parley.mpc.kernels import CHUNK, Kernels, Words, kernels
from parley.mpc.ot_extension import BLOCK, ObliviousTransfers, delta_bits
from parley.mpc.randomness import Csprng, random_bytes
from parley.mpc.replay import ACCEPT_SALT_BYTES, TREE_BITS, Kept, SealedSampler, accept_seal, pad_key
from parley.mpc.sampler import LANE_STEP, dither
from parley.mpc.steps import Message, Steps, pack, together, unpack
from parley.mpc.tables import Tables
from parley.mpc.transfers import Room

T = TypeVar("T")
COVERT_LABEL = "noise batch 1"
"""Under which a node's key signs a batch."""
MAGIC = b"parley.covert.v1"
HELLO = struct.Struct("<16sB32s32s32s33s32sHH")
"""Magic, role, tables' digest, random bytes, context, key, S, audit rate."""
MASTER_CHUNKS = 8
"""Of master transfers at a time: for 128 batches."""
QUOTA_BATCHES = 64
SIGNATURE_ROOM = 96
"""Signatures differ in length by a byte or two; messages do not."""
NO_SAMPLES: Words = np.empty(0, np.uint64)


@dataclass(frozen=True)
class Signing:
    """How a covert session signs, and whom it believes."""

    key: bytes
    """This server's public key, 33 bytes."""
    sign: Callable[[bytes], bytes]
    peer_keys: Callable[[], Collection[bytes]]
    """Those that the other server may sign with now."""
    verify: Verify
    context: bytes
    """32 bytes, equal on both servers and nowhere else."""


@cache
def quota(rate: Fraction) -> int:
    """Audits among QUOTA_BATCHES batches in a row that chance gives, but for a probability of 2^-50."""
    return QUOTA_BATCHES if rate == 1 else binomial_range(float(rate), QUOTA_BATCHES)[1]


class CovertSession:
    """One server's end of a live session under audit: shares of Gaussian samples, batch by batch."""

    def __init__(
        self, channel: Channel, role: int, tables: Tables, signing: Signing, audit_rate: Fraction,
        keep: Callable[[Evidence], None], rng: Csprng | None = None, native: Kernels | None = None,
        hold: Hold = held_nowhere,
    ) -> None:  # fmt: skip
        """Greets, makes base transfers and the master's trees. In production `rng` is None: system entropy, drawn where
        it is needed. `keep` makes evidence durable; it is called from another thread, before the channel closes. `hold`
        does that with what an audit would prove, before the other server can know of the audit.
        """
        if role not in (0, 1):
            raise ConfigurationError(f"role {role}: the two servers are 0 and 1")
        if audit_rate not in RATES:
            rates = ", ".join(str(rate) for rate in RATES)
            raise ConfigurationError(f"an audit rate of {audit_rate}: use one of {rates}")
        for name, value, size in (("key", signing.key, KEY_BYTES), ("context", signing.context, DIGEST_BYTES)):
            if len(value) != size:
                raise ConfigurationError(f"a session's {name} has {size} bytes, this one {len(value)}")
        started = time.perf_counter()
        self.channel, self.tables = channel, tables
        self._role, self._signing, self._rate = role, signing, audit_rate
        self._native = native or kernels()
        self._audits = Audits(self._native, tables, signing.verify, keep, channel.close, hold)
        self._draw: Callable[[int], bytes] = rng.bytes if rng else random_bytes
        self._y = group.scalar(self._draw(group.WIDE_BYTES))
        self._terms = channel.run(self._greet())
        session = self._terms.session
        self.id = session[:SESSION_BYTES]
        channel.open_session(self.id, role)
        base = channel.run(transfer(role, session, self._fresh()))
        self._master = ObliviousTransfers(self._native, role, session, pad_key(session), base, self._fresh(), TREE_BITS)
        channel.run(self._master.set_up())
        self._sampler = SealedSampler(self._native, role, tables, self._master, self._fresh())
        self._stock: list[BaseTransfers] = []
        self._room = Room()
        self._number = 0
        self._claims: deque[bool] = deque(maxlen=QUOTA_BATCHES)
        self.audits_borne = 0
        """By the other server, of this one's batches: what one has made by a batch, the other has borne."""
        self.base_ot_seconds = time.perf_counter() - started

    @property
    def audits_made(self) -> int:
        return self._audits.made

    @property
    def audits_passed(self) -> int:
        return self._audits.passed

    @property
    def audits_settled(self) -> int:
        """The oldest so many have found nothing."""
        return self._audits.settled

    def tell_verdicts(self, told: Callable[[], None]) -> None:
        """Call this, from any thread, after each audit that found nothing."""
        self._audits.told = told

    @property
    def traffic(self) -> Traffic:
        return self.channel.traffic

    def samples(self, lanes: int) -> Words:
        """Runs one batch of about so many lanes. Shares of the samples that have left quarantine, in the order of
        their batches: none of a batch that either server audits. A CaughtError carries evidence that is kept already.
        """
        if not 0 < lanes <= MOST_LANES:
            raise ConfigurationError(f"a batch of {lanes:,} lanes: use 1 to {MOST_LANES:,}")
        before = self._audits.waiting
        try:
            self.channel.next_batch()
            kept = self.channel.run(self._batch(-(-lanes // LANE_STEP) * LANE_STEP))
        except BaseException as error:
            self._end(str(error))  # whatever ended the batch, what an audit has found comes first
            raise
        self._audits.hear(before)
        return kept

    def close(self) -> None:
        """Ends the session when the last audit's verdict is in. What that finds is raised here, if nowhere before."""
        self._end("closed here")

    def _end(self, reason: str) -> None:
        try:
            self._audits.hear(self._audits.waiting)
        finally:
            self.channel.close(reason)

    # ------------------------------------------------------------ the session

    def _fresh(self) -> Csprng:
        return Csprng(self._draw(SEED_BYTES))

    def _greet(self) -> Steps[Terms]:
        role, signing, rate = self._role, self._signing, self._rate
        point = group.base(self._y)
        mine = HELLO.pack(
            MAGIC, role, self.tables.digest, self._draw(32), signing.context, signing.key, point,
            rate.numerator, rate.denominator,
        )  # fmt: skip
        theirs = yield from _swap(mine)
        magic, their_role, tables, _, context, key, their_point, *their_rate = HELLO.unpack(theirs)
        if magic != MAGIC:
            raise FrameError("the other side does not speak this version of the covert noise protocol")
        if their_role != 1 - role:
            raise FrameError(f"both servers claim role {role}: one must be 0 (A), the other 1 (B)")
        if tables != self.tables.digest:
            raise TablesDifferError(
                "the other server has other sampler tables: install the same release on both, same preset"
            )
        if context != signing.context:
            raise TermsDifferError("the other server means another federation, or other servers of it")
        if their_rate != [rate.numerator, rate.denominator]:
            raise TermsDifferError(f"the other server would audit at another rate than {rate}")
        self._require_pinned(key)
        place = (self.channel.place,) if self.channel.place else ()
        session = digest("session", *self._pair(mine, theirs), *place)
        points, keys = self._pair(point, group.checked(their_point)), self._pair(signing.key, key)
        return Terms(signing.context, session, keys, points, self.tables.digest, rate)

    def _pair(self, mine: T, theirs: T) -> tuple[T, T]:
        """Server 0's, then server 1's."""
        return (theirs, mine) if self._role else (mine, theirs)

    def _require_pinned(self, key: bytes) -> None:
        if key not in self._signing.peer_keys():
            raise TermsDifferError(
                "the other server signs with a key that is not pinned for it: compare pins, or accept its rotation"
            )

    def _transfers(self) -> Steps[BaseTransfers]:
        """128 master transfers each way; every 128 batches, an extension of the master makes more."""
        if not self._stock:
            made = yield from self._master.extend(MASTER_CHUNKS * CHUNK)
            for start in range(0, MASTER_CHUNKS * CHUNK, BLOCK):
                part = made.part(start, start + BLOCK)
                sent = np.stack(part.sender_pads(1), axis=1)
                self._stock.append(BaseTransfers(sent, part.choices, part.receiver_pads(1)))
            self._stock.reverse()
        return self._stock.pop()

    # ------------------------------------------------------------ a batch

    def _batch(self, lanes: int) -> Steps[Words]:
        role, peer, draw = self._role, 1 - self._role, self._draw
        base = yield from self._transfers()
        self._number += 1
        batch = self._terms.batch(self._number)
        their_point = self._terms.points[peer]
        audit = self._coin()
        x = group.scalar(draw(group.WIDE_BYTES))
        delta = pack(delta_bits(base.choices, TREE_BITS)).tobytes()
        opening, witness = Opening(draw(SEED_BYTES), delta, draw(SALT_BYTES)), draw(WITNESS_BYTES)

        # 1
        tape = opening.tape(batch, role)
        source = ObliviousTransfers(self._native, role, batch, pad_key(batch), base, tape, TREE_BITS, self._room)
        head = Head(
            opening.commitment(batch, role), witness_digest(batch, role, witness), question(x, their_point, audit)
        )
        answer, _ = yield from together(_swap(head.encoded()), source.set_up())
        their_head = Head.decoded(answer)
        group.checked(their_head.asked)

        # 2
        sent: list[Message] = []
        got: list[Message] = []
        view = yield from _recorded(self._sampler.fed_by(source, tape).view(lanes), sent, got)
        share, salt = pack(view.accepted).tobytes(), tape.bytes(ACCEPT_SALT_BYTES)

        # 3
        masked = Masks(batch, role, self._terms.points[role], their_head.asked).answered(self._y, witness, opening)
        seal = Seal(accept_seal(batch, role, salt, share), *masked, draw(NONCE_BYTES))
        their_seal = Seal.decoded((yield from _swap(seal.encoded())))

        # 4
        seals = self._pair(seal, their_seal)
        tags = FrameTags(batch, seals)
        tagged = self._pair(tags.of_all(role, sent), tags.of_all(peer, got))
        record = Record(self._terms, self._number, lanes, self._pair(head, their_head), seals, tagged)
        signature = yield from self._signatures(record)

        # 5: only now does anything depend on whether this server audits
        theirs = Masks(batch, peer, their_point, head.asked)
        if audit:
            said = Opening.decoded(theirs.read(x, True, their_seal.opening))
            evidence = Evidence(record, peer, signature, opening, x)
            self._audits.begin(evidence, said, Kept(source.owned, sent))
            last = b"\1" + said.audited(batch, peer) + bytes(ACCEPT_SALT_BYTES + len(share))
        else:
            their_witness = theirs.read(x, False, their_seal.witness)
            if witness_digest(batch, peer, their_witness) != their_head.witness:
                raise PeerCheatedError("the other server handed over another witness than it had committed to")
            last = b"\0" + their_witness + salt + share
        answer = yield from _swap(last)
        claim, rest = answer[0], answer[1:]
        due = {0: witness, 1: opening.audited(batch, role)}.get(claim, b"")
        if not hmac.compare_digest(rest[:DIGEST_BYTES], due):
            raise PeerCheatedError("the other server does not say truly whether it audited a batch")
        if claim:
            crash.point("aggregator.audited")
        self._count(claim == 1)
        if audit or claim:
            return NO_SAMPLES
        their_salt, their_share = rest[DIGEST_BYTES:][:ACCEPT_SALT_BYTES], rest[DIGEST_BYTES + ACCEPT_SALT_BYTES :]
        if not hmac.compare_digest(accept_seal(batch, peer, their_salt, their_share), their_seal.accept):
            raise SealBrokenError("the other server opened an accept share that it had not sealed: it did not follow "
                                  "the noise protocol")  # fmt: skip
        both = np.frombuffer(share, np.uint8) ^ np.frombuffer(their_share, np.uint8)
        accepted = unpack(both, lanes).astype(bool)
        check_accepted(self.tables, lanes, int(accepted.sum()))
        kept: Words = view.product[accepted]
        return kept + dither(self.tables, len(kept), self._fresh())

    def _coin(self) -> bool:
        """Whether to audit the other server in this batch."""
        return self._draw(1)[0] % self._rate.denominator == 0

    def _signatures(self, record: Record) -> Steps[bytes]:
        """Both sign; the other server's signature of what this one has seen it do."""
        mine = self._signing.sign(record.statement(self._role))
        if len(mine) >= SIGNATURE_ROOM:
            raise ConfigurationError(f"a signature of {len(mine)} bytes: at most {SIGNATURE_ROOM - 1} fit")
        answer = yield from _swap(bytes([len(mine)]) + mine.ljust(SIGNATURE_ROOM - 1, b"\0"))
        theirs = answer[1 : 1 + answer[0]]
        peer = 1 - self._role
        key = self._terms.keys[peer]
        self._require_pinned(key)
        if not self._signing.verify(key, record.statement(peer), theirs):
            raise PeerCheatedError("the other server did not sign what it has sent and received in a batch")
        return theirs

    def _count(self, claim: bool) -> None:
        """Audits of this server by the other one, so that noise is made at all."""
        self._claims.append(claim)
        self.audits_borne += claim
        made, most = sum(self._claims), quota(self._rate)
        if made > most:
            raise PeerCheatedError(
                f"the other server audited {made} of {len(self._claims)} batches, and at a rate of {self._rate} chance "
                f"gives {most} at most"
            )


def _swap(data: bytes) -> Steps[bytes]:
    (answer,) = yield [np.frombuffer(data, np.uint8)]
    return answer.tobytes()


def _recorded(protocol: Steps[T], sent: list[Message], got: list[Message]) -> Steps[T]:
    """The same protocol; all its messages are kept."""
    message = next(protocol)
    while True:
        sent.append(message)
        answer = yield message
        got.append(answer)
        try:
            message = protocol.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
