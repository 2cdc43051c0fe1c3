"""Lies around a covert batch, all lies by name, and what becomes of each.

CAUGHT     in every batch of it that is audited, with proof; it goes on, or breaks off, in the others
REFUSED    the honest server ends the session at once: nothing is used that the lie has touched, nobody is accused
BETS       refused, unless the liar has guessed secret bits of a delta that is used once
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from parley.attacks import covert_gates as inside
from parley.attacks.covert_liar import Lie, hang_up, octets
from parley.attacks.kinds import AttackError
from parley.mpc import group
from parley.mpc.base_ot import BaseTransfers
from parley.mpc.batch_record import Head, Seal
from parley.mpc.channel import HEADER
from parley.mpc.covert import COVERT_LABEL, HELLO, Signing
from parley.mpc.gates import Gates
from parley.mpc.handover import OPENING_BYTES, Opening, digest, xor
from parley.mpc.steps import Message
from parley.node.pins import key_of
from parley.node.signatures import ALGORITHM

SMALL_ORDER = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
"""A point of order eight."""
IDENTITY = bytes([1, *bytes(31)])
BASE_POINTS, MASTER_TREES, MASTER_CORRECTIONS, MASTER_ANSWERS, FIRST_BATCH = 1, 2, 3, 5, 6
SECOND_BATCH_GATE = 40
"""A frame of the second batch, by the session's count."""


def signed(private: ec.EllipticCurvePrivateKey, statement: bytes) -> bytes:
    """As a node's key signs a batch."""
    return private.sign(b"parley signature 1\n" + COVERT_LABEL.encode() + b"\n" + statement, ALGORITHM)


def turned(data: bytes, place: int = 0) -> bytes:
    """With one bit turned over."""
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


# ------------------------------------------------------------ seeds and deltas


class HidesSeed(Lie):
    """Masks something else than its opening."""

    def seal(self, seal: Seal) -> Seal:
        return replace(seal, opening=os.urandom(OPENING_BYTES))


class LateSeed(Lie):
    """Commits to one seed and works by another one, which it hands over: chosen after the commitment."""

    def head(self, head: Head, theirs: bytes) -> Head:
        return replace(head, commitment=os.urandom(32))


class OtherOpening(Lie):
    """Commits to an opening that it does not work by, and hands that over."""

    def claimed(self, truth: Opening) -> Opening:
        return replace(truth, seed=os.urandom(32))

    def head(self, head: Head, theirs: bytes) -> Head:
        self._claimed = self.claimed(self.session.opening)
        return replace(head, commitment=self._claimed.commitment(self.session.batch, self.session.role))

    def seal(self, seal: Seal) -> Seal:
        difference = xor(self.session.opening.encoded(), self._claimed.encoded())
        return replace(seal, opening=xor(seal.opening, difference))


class OtherDelta(OtherOpening):
    """The same with its seed, and another delta."""

    def claimed(self, truth: Opening) -> Opening:
        return replace(truth, delta=turned(truth.delta))


class HangsUp(inside.Collapse):
    """Collapses, and hangs up as soon as it knows whether it is audited."""

    patient = frozenset({"last"})

    def last(self, text: bytes, theirs: bytes) -> bytes:
        raise hang_up()


class GroundHello(inside.OneBit):
    """Chooses its nonce when it has the other server's, so that the session's name begins with zeros; and lies."""

    def nonce(self, truth: bytes) -> bytes:
        session = self.session
        theirs = session.line.link.peek()
        rate, signing = session.rate, session.signing
        for _ in range(1 << 16):
            tried = os.urandom(32)
            mine = HELLO.pack(
                b"parley.covert.v1", session.role, session.tables.digest, tried, signing.context, signing.key,
                group.base(session.y), rate.numerator, rate.denominator,
            )  # fmt: skip
            if digest("session", *((theirs, mine) if session.role else (mine, theirs)))[0] == 0:
                return tried
        return truth


# ------------------------------------------------------------ the hello


@dataclass(frozen=True)
class Field:
    """Of the hello: where it is, and what a liar writes there."""

    start: int
    value: Callable[[Lie], bytes]


def _stranger() -> bytes:
    return key_of(ec.generate_private_key(ec.SECP256R1()).public_key())


HELLO_FIELDS = {
    "magic": Field(0, lambda lie: b"parley.covert.v9"),
    "role": Field(16, lambda lie: bytes([1 - lie.session.role])),
    "tables": Field(17, lambda lie: os.urandom(32)),
    "context": Field(81, lambda lie: os.urandom(32)),
    "stranger": Field(113, lambda lie: _stranger()),
    "key": Field(113, lambda lie: next(iter(lie.session.signing.peer_keys()))),
    "identity": Field(146, lambda lie: IDENTITY),
    "point": Field(146, lambda lie: SMALL_ORDER),
    "rate": Field(178, lambda lie: (1).to_bytes(2, "little") * 2),
}


class Stranger(Lie):
    """Signs with a key of its own making, from the hello on."""

    def identity(self, truth: Signing) -> Signing:
        private = ec.generate_private_key(ec.SECP256R1())
        return replace(truth, key=key_of(private.public_key()), sign=lambda text: signed(private, text))


class Hello(Lie):
    """Other tables, another context, another key, … than are right; by name of the field."""

    def hello(self, text: bytes) -> bytes:
        field = HELLO_FIELDS[self.argument]
        value = field.value(self)
        return text[: field.start] + value + text[field.start + len(value) :]


# ------------------------------------------------------------ the master


class BasePoints(Lie):
    """What should be points are none."""

    def exchange(self, number: int, message: Message) -> Message:
        return [octets(SMALL_ORDER * (message[0].size // 32))] if number == BASE_POINTS else message


class MasterTrees(Lie):
    def exchange(self, number: int, message: Message) -> Message:
        return inside.flipped(message) if number == MASTER_TREES else message


class MasterCorrections(Lie):
    def exchange(self, number: int, message: Message) -> Message:
        return inside.flipped(message, every=256) if number == MASTER_CORRECTIONS else message


class MasterAnswers(Lie):
    def exchange(self, number: int, message: Message) -> Message:
        return inside.flipped(message) if number == MASTER_ANSWERS else message


class OtherPads(Lie):
    """Masks a batch's trees by other master transfers."""

    def transfers(self, base: BaseTransfers) -> BaseTransfers:
        return replace(base, sent=np.roll(base.sent, 1, axis=0))


class GuessedPad(Lie):
    """One pad of one tree is wrong: the other server ends the session, or the liar knows one bit of its delta."""

    def trees(self, message: Message) -> Message:
        return inside.flipped(message, every=1 << 30)


# ------------------------------------------------------------ the hand-over


class Question(Lie):
    """R is none that it may ask."""

    patient = frozenset({"transfers"})

    def head(self, head: Head, theirs: bytes) -> Head:
        peer = 1 - self.session.role
        asked = {
            "identity": lambda: self.session.terms.points[peer],  # R - S is the identity
            "small": lambda: SMALL_ORDER,
            "unknown": lambda: group.hashed(os.urandom(8)),
            "echo": lambda: theirs[64:96],
        }[self.argument]()
        return replace(head, asked=asked)


class Witness(Lie):
    """Masks another witness than it has committed to."""

    def seal(self, seal: Seal) -> Seal:
        return replace(seal, witness=turned(seal.witness))


class Signature(Lie):
    """By another key, of another statement, of none."""

    def signature(self, statement: bytes, sign: Callable[[bytes], bytes]) -> bytes:
        if self.argument == "key":
            return signed(ec.generate_private_key(ec.SECP256R1()), statement)
        return sign(turned(statement, len(statement) - 1)) if self.argument == "frames" else b""


class Last(Lie):
    """Claims an audit that there was not, or hides one that there was, or opens another share."""

    def audits(self) -> bool:
        return self.argument == "hidden" or (self.argument != "false" and super().audits())

    def last(self, text: bytes, theirs: bytes) -> bytes:
        salt = 33
        return {
            "false": lambda: b"\1" + os.urandom(32) + text[33:],
            "hidden": lambda: b"\0" + os.urandom(32) + text[33:],
            "unknown": lambda: b"\2" + text[1:],
            "salt": lambda: text if text[0] else turned(text, salt),
            "share": lambda: text if text[0] else turned(text, len(text) - 1),
        }[self.argument]()


class Audits(Lie):
    """Audits every batch, so that no noise is made."""

    def audits(self) -> bool:
        return True


# ------------------------------------------------------------ frames


class Silence(Lie):
    """Goes away in place of a frame, by the session's count."""

    def frames(self, number: int, frame: bytes) -> list[bytes]:
        if number == int(self.argument):
            raise hang_up()
        return [frame]


class Mute(Lie):
    """The same, and stays on the line."""

    def frames(self, number: int, frame: bytes) -> list[bytes]:
        return [] if number >= int(self.argument) else [frame]


class Frame(Lie):
    """In one place of the second batch: another label, tag, length or number of frames."""

    before = b""

    def frames(self, number: int, frame: bytes) -> list[bytes]:
        before, self.before = self.before, frame
        if number != SECOND_BATCH_GATE:
            return [frame]
        tag = HEADER.size
        return {
            "session": lambda: [turned(frame)],
            "batch": lambda: [turned(frame, 16)],
            "step": lambda: [turned(frame, 20)],
            "tag": lambda: [turned(frame, tag)],
            "text": lambda: [turned(frame, len(frame) - 1)],
            "short": lambda: [frame[:-1]],
            "nothing": lambda: [b""],
            "old": lambda: [before],
            "twice": lambda: [frame, frame],
        }[self.argument]()


@dataclass(frozen=True)
class Known:
    """A lie, and what becomes of it."""

    made: Callable[[str], Lie]
    what: str
    by: tuple[int, ...] = (0, 1)
    refused: tuple[str, ...] = ()
    """With one of these errors, where it is refused."""
    proved: bool = False
    """Whether every batch of it that is audited convicts it."""
    goes_on: bool = False
    """A session of it may end well."""
    bits: int = 0
    """That it bets on."""


CHEATED, SEAL, COUNT, GONE = "PeerCheatedError", "SealBrokenError", "AcceptedCountError", "PeerClosedError"
FRAME, TERMS, POINT, TABLES = "FrameError", "TermsDifferError", "InvalidPointError", "TablesDifferError"


def _gates(lying: type[Gates]) -> Callable[[str], Lie]:
    return inside.of_gates(lying)


_CAUGHT: dict[str, Known] = {
    "collapse": Known(inside.Collapse, "sends nothing where a one belongs: the joint noise is gone", (1,)),
    "squeeze": Known(inside.Squeeze, "shifts U - T: only small noise is accepted", refused=(COUNT,)),
    "leak": Known(inside.Leak, "adds marks: the opened sum tells the noise"),
    "peek": Known(inside.Peek, "forces accept bits and keeps the true ones", refused=(SEAL,)),
    "one-bit": Known(inside.OneBit, "one wrong bit in one message of one lane"),
    "select": Known(_gates(inside.SelectGates), "adds e times a secret bit to products of bits", refused=(COUNT,)),
    "flips": Known(_gates(inside.FlipsGates), "negates its bits", refused=(COUNT,)),
    "to-ring": Known(_gates(inside.RingGates), "sends other integers for bits", refused=(COUNT,)),
    "heights": Known(_gates(inside.HeightGates), "the same for the height's bits", refused=(COUNT,)),
    "ring-products": Known(_gates(inside.ProductGates), "adds e times a secret bit to integers", refused=(COUNT,)),
    "digit-tables": Known(_gates(inside.DigitGates), "sends tables of other digits", refused=(COUNT,)),
    "less": Known(_gates(inside.LessGates), "compares with a number of its choice", refused=(COUNT,)),
    "dice": Known(_gates(inside.DiceGates), "its own random bits are none of its seed's"),
    "row": Known(inside.Row, "XORs a constant into its share of the row", refused=(COUNT,)),
    "false-bits": Known(inside.FalseBits, "seals a false accept bit"),
    "blind-bits": Known(inside.BlindBits, "forces accept bits before it knows them", refused=(COUNT,)),
    "tape": Known(inside.Tape, "draws from another tape than committed"),
    "late-tape": Known(inside.LateTape, "the same in its gates only"),
    "tables": Known(inside.OtherTables, "computes with other tables than claimed", refused=(COUNT,)),
    "old-frame": Known(inside.OldFrame, "says again what it said in the batch before", refused=(COUNT,)),
    "swapped": Known(inside.Swapped, "sends a frame's lanes in another order", refused=(COUNT,)),
    "hides-seed": Known(HidesSeed, "masks something else than its opening"),
    "late-seed": Known(LateSeed, "hands over another seed than committed, by which it worked"),
    "other-seed": Known(OtherOpening, "commits to a seed that it does not work by"),
    "other-delta": Known(OtherDelta, "commits to a delta that is not its own"),
    "hangs-up": Known(HangsUp, "collapses, and is gone once it knows of an audit", (1,), (GONE,)),
    "ground-hello": Known(GroundHello, "grinds its nonce for a session's name, and turns one bit"),
}  # fmt: skip
CAUGHT = {name: replace(known, proved=True, goes_on=True) for name, known in _CAUGHT.items()}
REFUSED: dict[str, Known] = {
    **{f"hello:{name}": Known(Hello, f"another {name} in its hello", refused=errors) for name, errors in {
        "magic": (FRAME,), "role": (FRAME,), "tables": (TABLES,), "context": (TERMS,), "stranger": (TERMS,),
        "key": (TERMS,), "identity": (POINT,), "point": (POINT,), "rate": (TERMS,)}.items()},
    "stranger": Known(Stranger, "signs with a key that nobody has pinned", refused=(TERMS,)),
    "base-points": Known(BasePoints, "base transfers with points of small order", refused=(POINT,)),
    "master-trees": Known(MasterTrees, "the master's trees are not consistent", refused=(CHEATED,)),
    "master-corrections": Known(MasterCorrections, "nor its corrections", refused=(CHEATED,)),
    "master-answers": Known(MasterAnswers, "nor its answers", refused=(CHEATED,)),
    "other-pads": Known(OtherPads, "masks a batch's trees by other transfers", refused=(CHEATED,)),
    "answers": Known(inside.Answers, "answers a batch's challenges wrongly", refused=(CHEATED,)),
    **{f"question:{name}": Known(Question, f"R: {name}", refused=errors) for name, errors in {
        "identity": (POINT,), "small": (POINT,), "unknown": (CHEATED, GONE), "echo": (CHEATED, GONE)}.items()},
    **{f"signature:{name}": Known(Signature, f"signs falsely: {name}", refused=(CHEATED,))
       for name in ("key", "frames", "none")},
    **{f"last:{name}": Known(Last, f"its last message: {name}", refused=errors) for name, errors in {
        "false": (CHEATED,), "hidden": (CHEATED,), "unknown": (CHEATED,), "salt": (SEAL,), "share": (SEAL,)}.items()},
    "witness": Known(Witness, "masks another witness than committed", refused=(CHEATED,)),
    "audits": Known(Audits, "audits every batch", refused=(CHEATED,)),
    **{f"frame:{name}": Known(Frame, f"a frame: {name}", refused=(FRAME,)) for name in (
        "session", "batch", "step", "tag", "text", "short", "nothing", "old", "twice")},
}  # fmt: skip
BETS: dict[str, Known] = {
    "corrections": Known(inside.Corrections, "a batch's corrections bet on four bits of the other's delta",
                         refused=(CHEATED,), proved=True, goes_on=True, bits=4),
    "guessed-pad": Known(GuessedPad, "one wrong pad of one tree bets on one bit of the other's delta",
                         refused=(CHEATED,), goes_on=True, bits=1),
}  # fmt: skip
MORE = {
    "silence": Known(Silence, "goes away in place of a frame", refused=(GONE,)),
    "mute": Known(Mute, "says nothing in place of a frame", refused=("PeerTimeoutError",)),
    "accuses": Known(Lie, "follows the protocol, and accuses the other server of every batch it audits", goes_on=True),
}
LIES = {**CAUGHT, **REFUSED, **BETS, **MORE}


def known(name: str) -> Known:
    """By its whole name, or by what stands before the colon."""
    found = LIES.get(name) or LIES.get(name.partition(":")[0])
    if found is None:
        raise AttackError(f"nobody knows how to lie by {name}")
    return found


def made(name: str) -> Lie:
    return known(name).made(name.partition(":")[2])
