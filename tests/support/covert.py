"""Two ends of a covert session in one process: keys of their own, and servers that lie in one place.

A liar is the product with one thing changed: a sampler or gates of its own, or another line in the very source.
"""

import hashlib
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.mpc import covert
from parley.mpc.base_ot import BaseTransfers, transfer
from parley.mpc.channel import Channel
from parley.mpc.covert import CovertSession, Signing
from parley.mpc.evidence import Evidence
from parley.mpc.gates import Gates
from parley.mpc.handover import Opening
from parley.mpc.kernels import Bytes, Kernels, Words
from parley.mpc.randomness import Csprng
from parley.mpc.replay import Kept, SealedSampler
from parley.mpc.sampler import Batch
from parley.mpc.steps import Message, Steps
from parley.mpc.tables import Tables, load
from tests.support.two import outcomes

CONTEXT = bytes(range(32))
DEADLINE = 600.0
"""That nobody comes to, however busy the machine."""
ALGORITHM = ec.ECDSA(hashes.SHA256())


@cache
def private(name: int) -> ec.EllipticCurvePrivateKey:
    """Server 0's, server 1's, and as many others as a test asks for."""
    return ec.generate_private_key(ec.SECP256R1())


def public(name: int) -> bytes:
    point = serialization.PublicFormat.CompressedPoint
    return private(name).public_key().public_bytes(serialization.Encoding.X962, point)


def sign(name: int, statement: bytes) -> bytes:
    return private(name).sign(statement, ALGORITHM)


def verify(key: bytes, statement: bytes, signature: bytes) -> bool:
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key).verify(signature, statement, ALGORITHM)
    except InvalidSignature:
        return False
    return True


def signing(role: int, context: bytes = CONTEXT) -> Signing:
    return Signing(public(role), lambda text: sign(role, text), lambda: [public(1 - role)], verify, context)


# ------------------------------------------------------------ two ends


class Noting:
    """A server whose coins a test may set, and which keeps an accusation of every batch that it audits, grounded or
    not.
    """

    coins: Callable[[int], bool] | None = None
    """Of the batch's number; None: real ones."""
    _audits: Any
    _number: int

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.accusations: list[Evidence] = []
        begin = self._audits.begin

        def noted(evidence: Evidence, said: Opening, kept: Kept) -> None:
            self.accusations.append(evidence)
            begin(evidence, said, kept)

        self._audits.begin = noted

    def _coin(self) -> bool:
        drawn: bool = super()._coin()  # type: ignore[misc]
        return drawn if self.coins is None else self.coins(self._number)


class Auditor(Noting, CovertSession):
    """An honest one."""


Class = type[CovertSession]


def auditing(coins: Callable[[int], bool], base: Class = Auditor) -> Class:
    """With these coins."""
    return type("Set", (base,), {"coins": staticmethod(coins)})


def never(number: int) -> bool:
    return False


QUIET = auditing(never)
"""Honest, and audits nothing."""


@dataclass
class End:
    """How one server ended."""

    session: Any = None
    batches: list[Words] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    error: BaseException | None = None


def dealt(role: int, session: bytes, rng: Csprng) -> Steps[BaseTransfers]:
    """Base transfers of which both know everything: a hundred times as fast."""
    yield from ()
    dealer = Csprng(hashlib.sha256(session).digest())
    keys, choices = dealer.octets(2, 128, 2, 16), dealer.bits(2, 128)
    received = keys[1 - role][np.arange(128), choices[role]]
    return BaseTransfers(keys[role], choices[role], received)


def run(
    batches: int, rate: Fraction = Fraction(1), lanes: int = 16, classes: tuple[Class, Class] = (Auditor, Auditor),
    tables: Tables | None = None, natives: tuple[Kernels | None, Kernels | None] = (None, None),
    signings: tuple[Signing, Signing] | None = None, rates: tuple[Fraction, Fraction] | None = None,
    seeds: tuple[bytes, bytes] | None = None, real: bool = False, channels: type[Channel] = Channel,
) -> list[End]:  # fmt: skip
    """So many batches, or until an end raises; what each then has. `real`: with base transfers."""
    ends = [End(), End()]

    def go(role: int, channel: Channel) -> None:
        end = ends[role]
        if channels is not Channel:
            channel = channels(channel._link, DEADLINE)
        try:
            end.session = classes[role](
                channel, role, tables or load("strips", "standard"), (signings or (signing(0), signing(1)))[role],
                (rates or (rate, rate))[role], end.evidence.append, Csprng(seeds[role]) if seeds else None,
                natives[role],
            )  # fmt: skip
            for _ in range(batches):
                end.batches.append(end.session.samples(lanes))
            end.session.close()
        except Exception as error:
            end.error = error
        finally:
            channel.close("the test's end")

    with mock.patch.object(covert, "transfer", transfer if real else dealt):
        outcomes(go, deadline_seconds=DEADLINE)
    return ends


def sums(ends: list[End], scale_bits: int = 41) -> Any:
    """All samples, put together."""
    shares = (np.concatenate([np.empty(0, np.uint64), *end.batches]) for end in ends)
    return sum(shares).view(np.int64) / 2.0**scale_bits  # type: ignore[union-attr]


# ------------------------------------------------------------ changed sources


def changed(name: str, *edits: tuple[str, str]) -> ModuleType:
    """That module of parley.mpc with these pieces of its source replaced, each of which is there once."""
    original = importlib.import_module(f"parley.mpc.{name}")
    assert original.__file__ is not None
    source = Path(original.__file__).read_text()
    for old, new in edits:
        assert source.count(old) == 1, (name, old, source.count(old))
        source = source.replace(old, new)
    made = ModuleType(f"changed_{name}")
    with mock.patch.dict(sys.modules, {made.__name__: made}):
        exec(compile(source, f"{name}, changed", "exec"), vars(made))
    return made


def liar(*edits: tuple[str, str]) -> Class:
    """A session that departs from the protocol where covert.py was changed."""
    module = changed("covert", *edits)
    module.transfer = dealt  # type: ignore[attr-defined]
    return type("Liar", (Noting, module.CovertSession), {})


# ------------------------------------------------------------ servers that lie


def lying(sampler: type[SealedSampler]) -> Class:
    """A session whose own messages are another sampler's."""

    class Lying(Auditor):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            cheating = sampler.__new__(sampler)
            vars(cheating).update(vars(self._sampler))
            self._sampler = cheating

    return Lying


def with_gates(gates: type[Gates]) -> type[SealedSampler]:
    class Cheat(SealedSampler):
        def _lanes(self, honest: Gates) -> Steps[Batch]:
            cheating = gates.__new__(gates)
            vars(cheating).update(vars(honest))
            return (yield from super()._lanes(cheating))

    return Cheat


class CollapsingGates(Gates):
    """Server 1's: the high bits of W and of its slope become integers times zero."""

    def to_ring(self, bits: Bytes, ring_bits: int) -> Steps[Words]:
        if ring_bits != 64:
            return (yield from super().to_ring(bits, ring_bits))
        transfers = self.take(len(bits) // 2)
        flips = bits.reshape(2, len(bits) // 2, -1)[1 - self.role] ^ self.choices(transfers)
        honest = self.kernels
        inner = self._one_way(transfers, transfers, bits, ring_bits, 0, flips)
        self.kernels = _Zero(honest)  # type: ignore[assignment]
        message = next(inner)
        self.kernels = honest  # other gates run beside this one
        answer = yield message
        self.kernels = _Zero(honest)  # type: ignore[assignment]
        try:
            inner.send(answer)
        except StopIteration as stop:
            self.kernels = honest
            shares: Words = stop.value
            return shares
        raise AssertionError


class _Zero:
    """Kernels that put nothing where a one belongs."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernels, name)

    def ring_message(self, k0: Words, k1: Words, bits: Bytes, values: Words, ring_bits: int) -> Bytes:
        return self._kernels.ring_message(k0, k1, bits, np.zeros_like(values), ring_bits)

    def ring_sender_share(self, k0: Words, flips: Bytes, bits: Bytes, values: Words, share: Words) -> None:
        self._kernels.ring_sender_share(k0, flips, bits, np.zeros_like(values), share)


class Squeeze(SealedSampler):
    """Adds a constant to its share of U - T: only small U are accepted."""

    def _accept(self, gates: Gates, difference: Words) -> Steps[Bytes]:
        bits = self._tables.format.threshold_bits
        return (yield from super()._accept(gates, difference + np.uint64((1 << bits) - (1 << bits - 4))))


class Leak(SealedSampler):
    """Adds marks to the product's inputs, which write U into the opened sum."""

    def _product(self, gates: Gates, heights: Any, w: Words) -> Steps[tuple[Bytes, Words]]:
        return (yield from super()._product(gates, heights, w + (np.uint64(1) << np.uint64(47))))


class OneBitGates(Gates):
    """One wrong bit in one message of one lane: the smallest lie."""

    def select(self, vectors: Bytes, vector_bits: int, bits: Bytes | None = None) -> Steps[tuple[Bytes, Bytes]]:
        inner = super().select(vectors, vector_bits, bits)
        first, *rest = next(inner)
        first = first.copy()
        first[0] ^= 1
        answer: Message = yield [first, *rest]
        try:
            inner.send(answer)
        except StopIteration as stop:
            result: tuple[Bytes, Bytes] = stop.value
            return result
        raise AssertionError


class FalseBits(SealedSampler):
    """Seals other accept bits than the protocol gives."""

    def _opened(self, share: Bytes) -> Steps[Bytes]:
        changed = share.copy()
        changed[0] ^= 1
        return (yield from super()._opened(changed))


LIES: dict[str, Callable[[], Class]] = {
    "collapse": lambda: lying(with_gates(CollapsingGates)),
    "squeeze": lambda: lying(Squeeze),
    "leak": lambda: lying(Leak),
    "one wrong bit": lambda: lying(with_gates(OneBitGates)),
    "false accept bits": lambda: lying(FalseBits),
    "another tape": lambda: liar(
        ("tape = opening.tape(batch, role)", "tape = Opening(draw(32), delta, bytes(32)).tape(batch, role)")
    ),
    "hides its seed": lambda: liar(("*masked, draw(NONCE_BYTES)", "masked[0], bytes(80), draw(NONCE_BYTES)")),
    "two seeds": lambda: liar(
        ("opening.commitment(batch, role)", "Opening(draw(32), delta, draw(32)).commitment(batch, role)")
    ),
    "another delta": lambda: liar(("Opening(draw(SEED_BYTES), delta,", "Opening(draw(SEED_BYTES), bytes(16),")),
}
"""What an audit must find."""
