"""One aggregation server that lies inside the joint sampler, with whoever sees the released sums: what is left of the
noise of a released coordinate, to that coalition.

The liar follows every message's form, so that the honest server sees nothing odd. What holds against it is the honest
server's own part, τ units of noise that nobody else has a hand in. Under `malicious` there is nothing joint to lie in.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.aggregator.opening import Aggregator
from parley.aggregator.opening_store import Opened
from parley.aggregator.request import Request
from parley.attacks.kinds import Attack, Finding, Guard
from parley.attacks.lying_server import released, servers, uploads
from parley.mpc.clear import OwnNoise
from parley.mpc.gates import ONE, Gates
from parley.mpc.parts import NoiseParts
from parley.mpc.ring import Integers, Lattice
from parley.mpc.sampler import Batch, Sampler
from parley.mpc.steps import Steps, pack
from parley.mpc.tables import FORMATS
from parley.mpc.transfers import Transfers

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
TAU = 0.5
SEMI_HONEST, MALICIOUS = NoiseParts("semi-honest", TAU), NoiseParts("malicious", 1.0)
SCALE = FORMATS["standard"].scale_bits
FALSE_ALARM = 5.0
"""Deviations of an estimated deviation by which it may miss the own part's: 3e-7."""
SIZES = (12_000, 16_000)
"""Coordinates: of an attack that only removes, and of one that learns how to read."""


class WithoutOwnPart(OwnNoise):
    """A liar's: it leaves its own part out, for it hides nothing from itself."""

    def add(self, shares: Words, shift: int) -> None:
        """Nothing."""


# ------------------------------------------------------------ collapse


class CollapsingGates(Gates):
    """Server 1's: turns the high bits of W and of its slope into shares of zero as they become integers."""

    def to_ring(self, bits: NDArray[np.uint8], ring_bits: int) -> Steps[Words]:
        if ring_bits != 64:
            return (yield from super().to_ring(bits, ring_bits))
        half = len(bits) // 2
        transfers = self.take(half)
        flips = bits.reshape(2, half, -1)[1 - self.role] ^ self.choices(transfers)
        sent = np.ascontiguousarray(bits.reshape(2, half, -1)[self.role]).reshape(-1)
        k0, k1 = transfers.sender_words(0)
        nothing = np.zeros_like(ONE)  # where 1 − 2b belongs: the only lie
        message = self.kernels.ring_message(k0, k1, sent, nothing, 64)
        answer, packed = yield [message.reshape(-1), pack(flips)]
        shares = np.zeros((2, len(sent)), np.uint64)
        theirs = self._flips([packed], half).reshape(-1)
        self.kernels.ring_sender_share(k0, theirs, sent, nothing, shares[self.role])
        pads, arrived = transfers.receiver_words(0), answer.reshape(message.shape)
        mine = flips.reshape(-1)
        self.kernels.ring_receiver_share(pads, mine, transfers.choices, arrived, shares[1 - self.role])
        return shares.reshape(2 * half, self.lanes)


class Collapse(Sampler):
    """What it makes are samples a hundredth of their size: both dithers and little else."""

    def _lanes(self, gates: Gates) -> Steps[Batch]:
        lying = CollapsingGates.__new__(CollapsingGates)
        vars(lying).update(vars(gates))
        return (yield from super()._lanes(lying))


# ------------------------------------------------------------ leak

MARKED = 15
"""Upper bits of U that are shown."""
PLACE = SCALE + 6
"""Of the lowest mark: 64 units, beyond all noise."""


class Leak(Sampler):
    """Adds marks far above the noise: each upper bit of the secret U times a power of two, and the sign at the top."""

    def _product(self, gates: Gates, heights: Transfers, w: Words) -> Steps[tuple[NDArray[np.uint8], Words]]:
        bits = self._tables.format.threshold_bits
        shifts = np.arange(1, bits + 1, dtype=np.uint64)
        marks = np.zeros(bits, np.uint64)
        marks[bits - MARKED :] = np.uint64(1) << np.arange(PLACE, PLACE + MARKED, dtype=np.uint64)
        (total,) = yield from gates.ring_products(heights, [(0, (w << shifts[:, None]) + marks[:, None], 64)])
        x = total + w
        slot, sign = gates.random_bits(1)
        top = np.uint64(1 << 63)
        (turned,) = yield from gates.ring_products(slot, [(0, (top - (x + x))[None], 64)])
        return sign[0], x + turned


def read_marks(opened: Integers, lattice: Lattice) -> tuple[NDArray[np.int64], Floats]:
    """From the opened sum: a cell of sign and upper bits of U for each coordinate, and what is left of it, in units."""
    bits, place = lattice.opening_bits, PLACE - lattice.dropped_bits
    value = opened & ((1 << bits) - 1)
    negative = value >= 1 << (bits - 2)
    value = np.where(negative, (1 << (bits - 1)) - value, value)
    mark = (value + (1 << (place - 1))) >> place
    rest = value - (mark << place)
    # Own noise may carry a mark beyond its range, at either end.
    cell = (np.clip(mark, 0, (1 << MARKED) - 1) >> (MARKED - 6)) + (negative.astype(np.int64) << 6)
    return cell, np.where(negative, -rest, rest) / 2.0**lattice.fraction_bits


# ------------------------------------------------------------ what is left


def opened_noise(folder: Path, liar: type[Sampler], parts: NoiseParts, dimension: int) -> tuple[Integers, Lattice]:
    """A sum of nothing but noise, as the coordinator gets it from an honest A and a lying B."""
    lattice = Lattice(1.0, 16, SCALE, parts)
    request = Request(
        run="attacked", round=0, dimension=dimension, lattice=lattice, minimum_parties=2, most_records=2, clip=1.0
    )
    vectors = {party: np.zeros(dimension) for party in ("a", "b")}
    with servers(folder, {1: liar}, lanes=4096) as two:
        two.aggregators[1].own = WithoutOwnPart(two.pools[1].tables)
        opened = two.open(request, uploads(lattice, vectors))
    shares = [np.frombuffer(each.share, "<u8") for each in opened if isinstance(each, Opened)]
    if len(shares) != 2 or released(lattice, opened) is None:
        raise RuntimeError(f"the servers refused: {opened}")
    return lattice.open(*shares), lattice


def left_by_collapse(folder: Path, parts: NoiseParts) -> tuple[float, int]:
    """Deviation of the noise, in units, and of how many coordinates."""
    opened, lattice = opened_noise(folder, Collapse, parts, SIZES[0])
    return float(np.std(opened / 2.0**lattice.fraction_bits)), len(opened)


def left_by_leak(folder: Path, parts: NoiseParts) -> tuple[float, int]:
    """What the marks do not tell, learned on one half of the coordinates and measured on the other."""
    opened, lattice = opened_noise(folder, Leak, parts, SIZES[1])
    cell, noise = read_marks(opened, lattice)
    half = len(cell) // 2
    sums, counts = (np.bincount(cell[:half], weights, 128) for weights in (noise[:half], None))
    guess = sums / np.maximum(counts, 1)
    known = counts[cell[half:]] > 0
    rest = (noise[half:] - guess[cell[half:]])[known]
    return float(np.std(rest)), len(rest)


def bounded(left: float, count: int, own: float) -> Finding:
    """Whether the honest server's own part is still there, give or take what an estimate may miss."""
    interval = FALSE_ALARM * left / (2 * count) ** 0.5
    return Finding("bounded" if left + interval >= own else "succeeds", own, left)


def collapse(folder: Path, without: tuple[Guard, ...]) -> Finding:
    return bounded(*left_by_collapse(folder, SEMI_HONEST), TAU)


def leak(folder: Path, without: tuple[Guard, ...]) -> Finding:
    return bounded(*left_by_leak(folder, SEMI_HONEST), TAU)


def nothing_joint(liar: type[Sampler]) -> Any:
    """The same liar where no noise is joint: it is never asked."""

    def attempt(folder: Path, without: tuple[Guard, ...]) -> Finding:
        opened, lattice = opened_noise(folder, liar, MALICIOUS, SIZES[0])
        left = float(np.std(opened / 2.0**lattice.fraction_bits))
        found = bounded(left, len(opened), 1.0)
        return Finding("refused" if found.outcome == "bounded" else "succeeds", found.bound, found.measured)

    return attempt


def _as_they_come(self: Aggregator, pieces: Iterator[Words], shift: int) -> Iterator[Words]:
    return pieces


OWN_NOISE = Guard("own-noise", "parley.aggregator.opening:Aggregator._with_own", _as_they_come)
GUARDS = (OWN_NOISE,)
ATTACKS = (
    Attack(
        "collapse",
        "Server B sends nothing where a one belongs in one gate: the joint noise shrinks to a hundredth, unseen by A.",
        ("own-noise",),
        collapse,
    ),
    Attack(
        "leak",
        "Server B adds marks to one gate's inputs: the opened sum itself tells sign and upper bits of the joint noise.",
        ("own-noise",),
        leak,
    ),
    Attack(
        "collapse-malicious",
        "The same as collapse, in a run whose servers sample nothing together: there is no gate to lie in.",
        ("own-noise",),
        nothing_joint(Collapse),
    ),
    Attack(
        "leak-malicious",
        "The same as leak, in a run whose servers sample nothing together: there is no gate to lie in.",
        ("own-noise",),
        nothing_joint(Leak),
    ),
)
