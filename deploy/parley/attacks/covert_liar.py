"""A server that lies in a covert noise session: the product's own session with hooks, through which a lie speaks.

A liar runs in a process of its own (`parley.attacks.covert_server`). It audits at random and examines nothing: whatever
it has of a batch that it audited it turns into an accusation of the other server, true or not.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar, TypeVar

import numpy as np

from parley.attacks.kinds import needed
from parley.mpc.audit import Audits
from parley.mpc.base_ot import BaseTransfers
from parley.mpc.batch_record import HEAD, FrameTags, Head, Record, Seal, Terms
from parley.mpc.channel import FRAME_OVERHEAD, Channel, Link
from parley.mpc.covert import CovertSession, Signing
from parley.mpc.errors import PeerClosedError
from parley.mpc.evidence import Evidence
from parley.mpc.handover import Opening
from parley.mpc.kernels import Bytes, Kernels, Words
from parley.mpc.ot_extension import delta_bits
from parley.mpc.randomness import Csprng
from parley.mpc.replay import TREE_BITS, Kept, SealedSampler
from parley.mpc.sampler import Batch
from parley.mpc.steps import Message, Steps, pack
from parley.mpc.tables import Tables

T = TypeVar("T")
ACCUSES = 4
"""Every so manyth batch is audited by a liar: more than an honest server would at 1/8, and within what it may."""


def octets(data: bytes) -> Bytes:
    return np.frombuffer(data, np.uint8)


class LyingSampler(SealedSampler):
    """Without a lie of its own."""

    session: "LyingSession"

    def view(self, lanes: int) -> Steps[Batch]:
        inner, index = super().view(lanes), 0
        message = next(inner)
        self.session.stage = "frames"
        while True:
            message = self.altered(index, message)
            self.session.sent.append(message)
            answer = yield message
            self.session.got.append(answer)
            index += 1
            try:
                message = inner.send(answer)
            except StopIteration as stop:
                self.session.stage = "seal"
                batch: Batch = stop.value
                return batch

    def altered(self, index: int, message: Message) -> Message:
        """What is sent in place of a batch's frame."""
        return message


class Lie:
    """What a server says in place of the truth; this one says the truth."""

    sampler: ClassVar[type[LyingSampler]] = LyingSampler
    patient: ClassVar[frozenset[str]] = frozenset()
    """Stages at which it hears the other server before it speaks."""
    session: "LyingSession"

    def __init__(self, argument: str = "") -> None:
        self.argument = argument

    def identity(self, truth: Signing) -> Signing:
        """As whom it signs."""
        return truth

    def nonce(self, truth: bytes) -> bytes:
        """Of the hello."""
        return truth

    def hello(self, text: bytes) -> bytes:
        return text

    def exchange(self, number: int, message: Message) -> Message:
        """By the session's count: 0 hello, 1 base transfers, 2 the master's trees, 3 to 5 its extension."""
        return message

    def frames(self, number: int, frame: bytes) -> list[bytes]:
        """As `exchange`, with label and tag; what really leaves."""
        return [frame]

    def transfers(self, base: BaseTransfers) -> BaseTransfers:
        """Those of a batch."""
        return base

    def head(self, head: Head, theirs: bytes) -> Head:
        """`theirs`: what the other server said in its place, where this one is patient."""
        return head

    def trees(self, message: Message) -> Message:
        """Of a batch."""
        return message

    def seal(self, seal: Seal) -> Seal:
        return seal

    def signature(self, statement: bytes, sign: Callable[[bytes], bytes]) -> bytes:
        return sign(statement)

    def last(self, text: bytes, theirs: bytes) -> bytes:
        return text

    def audits(self) -> bool:
        """Whether it does, in the next batch."""
        return os.urandom(1)[0] % ACCUSES == 0


class LyingLink:
    """Sends what the lie makes of a frame, and can look at the other server's next one first."""

    def __init__(self, link: Link, lie: Lie, deadline: Callable[[], float]) -> None:
        self._link, self._lie, self._deadline = link, lie, deadline
        self._early: list[bytes] = []
        self._sent = 0

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        number, self._sent = self._sent, self._sent + 1
        for each in self._lie.frames(number, bytes(frame)):
            self._link.send(each)

    def peek(self) -> bytes:
        """The other server's next frame, without its label and tag."""
        if not self._early:
            self._early.append(bytes(self._link.receive(self._deadline())))
        return self._early[0][FRAME_OVERHEAD:]

    def receive(self, deadline: float) -> bytes | bytearray | memoryview:
        return self._early.pop() if self._early else self._link.receive(deadline)

    def close(self) -> None:
        self._link.close()


class LyingChannel(Channel):
    """Says what the lie makes of a message."""

    def __init__(self, link: LyingLink, lie: Lie, deadline_seconds: float) -> None:
        super().__init__(link, deadline_seconds)
        self.link, self._lie, self._number = link, lie, 0

    def exchange(self, message: Message) -> Message:
        number, self._number = self._number, self._number + 1
        return super().exchange(self._lie.exchange(number, message))


class Accusations(Audits):
    """Accuses, whatever there is."""

    session: "LyingSession"

    def begin(self, evidence: Evidence, said: Opening, kept: Kept) -> None:
        self.made += 1
        self.keep(replace(evidence, record=self.session.record))


class Notes(Csprng):
    """The system's entropy, remembered."""

    def __init__(self, lie: Lie) -> None:
        super().__init__(os.urandom(32))
        self._lie = lie
        self.drawn: list[bytes] = []

    def bytes(self, count: int) -> bytes:
        found = os.urandom(count)
        if len(self.drawn) == 1:  # after y comes the hello's nonce
            found = self._lie.nonce(found)
        self.drawn = [*self.drawn[-8:], found]
        return found


class LyingSession(CovertSession):
    """The product's, with a lie in it."""

    def __init__(
        self, lie: Lie, channel: LyingChannel, role: int, tables: Tables, signing: Signing, audit_rate: Fraction,
        keep: Callable[[Evidence], None], native: Kernels | None,
    ) -> None:  # fmt: skip
        self.lie, lie.session = lie, self
        self.stage = "transfers"
        self.sent: list[Message] = []
        self.got: list[Message] = []
        signing = lie.identity(signing)
        self.line, self.signing, self.role, self.rate = channel, signing, role, audit_rate
        self.completed = 0
        """Batches whose last message this server has seen."""
        self._notes = Notes(lie)
        signing = replace(signing, sign=lambda text: lie.signature(text, self.signing.sign))
        super().__init__(channel, role, tables, signing, audit_rate, keep, self._notes, native)
        self._sampler = instead(self._sampler, lie.sampler)
        self._sampler.session = self
        self._audits = instead(self._audits, Accusations)
        self._audits.session = self

    @property
    def y(self) -> bytes:
        return self._y

    @property
    def terms(self) -> Terms:
        return self._terms

    @property
    def batch(self) -> bytes:
        """The name of the present one."""
        return self._terms.batch(self._number)

    def _greet(self) -> Steps[Terms]:
        inner = super()._greet()
        (truth,) = next(inner)
        answer = yield [octets(self.lie.hello(truth.tobytes()))]
        try:
            inner.send(answer)
        except StopIteration as stop:
            terms: Terms = stop.value
            return terms
        raise AssertionError("a greeting is one exchange")

    def _transfers(self) -> Steps[BaseTransfers]:
        base = yield from super()._transfers()
        self._delta = pack(delta_bits(base.choices, TREE_BITS)).tobytes()
        return self.lie.transfers(base)

    def _coin(self) -> bool:
        return self.lie.audits()

    def _batch(self, lanes: int) -> Steps[Words]:
        self.stage, self.sent, self.got = "transfers", [], []
        inner = super()._batch(lanes)
        message = next(inner)
        while True:
            answer = yield self._said(message)
            self.completed += self.stage == "over"
            try:
                message = inner.send(answer)
            except StopIteration as stop:
                kept: Words = stop.value
                return kept

    def _said(self, message: Message) -> Message:
        theirs = self.line.link.peek() if self.stage in self.lie.patient else b""
        if self.stage == "transfers" and message[0].size == HEAD.size:
            seed, salt, _ = self._notes.drawn[-3:]
            self.opening = Opening(seed, self._delta, salt)
            head = Head.decoded(message[0].tobytes())
            needed(head.commitment == self.opening.commitment(self.batch, self.role), "this is not its opening")
            self.own_head = self.lie.head(head, theirs)
            return [octets(self.own_head.encoded()), *self.lie.trees(message[1:])]
        if self.stage == "seal":
            self.stage = "signature"
            self.own_seal = self.lie.seal(Seal.decoded(message[0].tobytes()))
            return [octets(self.own_seal.encoded())]
        if self.stage == "signature":
            self.stage = "last"
        elif self.stage == "last":
            self.stage = "over"
            return [octets(self.lie.last(message[0].tobytes(), theirs))]
        return message

    def _signatures(self, record: Record) -> Steps[bytes]:
        """Of what this server has really said."""
        heads, seals = list(record.heads), list(record.seals)
        heads[self.role], seals[self.role] = self.own_head, self.own_seal
        tags = FrameTags(record.batch, seals)
        made = [tags.of_all(self.role, self.sent), tags.of_all(1 - self.role, self.got)]
        if self.role:
            made.reverse()
        self.record = replace(record, heads=(heads[0], heads[1]), seals=(seals[0], seals[1]), tags=(made[0], made[1]))
        return (yield from super()._signatures(self.record))


def instead(honest: object, liar: type[T]) -> T:
    """The liar in an honest one's place, with all that it has."""
    made = liar.__new__(liar)
    vars(made).update(vars(honest))
    return made


def hang_up() -> PeerClosedError:
    """To be raised by a liar: its own end of the connection closes."""
    return PeerClosedError("the liar hangs up")
