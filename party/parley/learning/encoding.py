"""From clipped coefficients to exact integers, so that encoding adds no sensitivity.

A record's term is W ⊗ X in lattice steps, X its integer features and W the integers nearest to what the real clipped
coefficients ask for. Rounding may have made the term longer than the clip allows, so its norm |W|²·|X|² is checked in
exact integers against L², L = floor(bound / step) of the bound that the mechanism is accounted with, and W shortened
until it fits. Every term then has norm at most that bound whatever floating point did before, and sums of such integers
below 2^53 are exact in any order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.learning.errors import QueryError
from parley.learning.rows import Norms
from parley.mpc.parts import JOINT, NoiseParts
from parley.mpc.ring import LARGEST_LIMIT, Lattice

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EXACT = 2.0**53
SAFETY = 1 - 2.0**-40
"""Covers the rounding of a scale factor before the integers are truncated and checked again."""


@dataclass(frozen=True)
class Scale:
    """The lattice of one release, seen from a record."""

    step: float
    limit: int
    """L: no record's integer term is longer."""

    @classmethod
    def of(cls, lattice: Lattice, bound: float, records: int) -> "Scale":
        """For terms of norm `bound`, the clip's own; refuses what could not be summed exactly: `records` terms of norm
        L must stay below 2^53."""
        limit = lattice.steps_within(bound)
        if not 1 <= limit < LARGEST_LIMIT:
            raise QueryError(
                f"a record's term may span {limit:,} lattice steps, and must span 1 to {LARGEST_LIMIT:,}: "
                "change the lattice's fraction bits or the noise"
            )
        if records * limit >= EXACT:
            raise QueryError(f"{records:,} records of {limit:,} lattice steps sum beyond 2^53: use fewer fraction bits")
        return cls(lattice.step, limit)


def fraction_bits(
    contributions: int, bound: float, sigma: float, scale_bits: int, largest_limit: int, parts: NoiseParts = JOINT
) -> int:
    """The finest lattice on which `contributions` records of norm `bound` fit with room to spare, by public numbers."""
    for bits in range(min(24, scale_bits - 1), 0, -1):
        lattice = Lattice(sigma, bits, scale_bits, parts)
        steps = bound / lattice.step
        # As Lattice.check_range counts, with a factor of two to spare, and the limits above.
        largest = contributions * (steps + 1) + lattice.largest_noise
        if (
            steps < min(largest_limit, LARGEST_LIMIT / 8)
            and largest * 4 < 2.0**lattice.opening_bits
            and largest < EXACT
        ):
            return bits
    raise QueryError(
        f"{contributions:,} records of norm {bound:g} fit no lattice at a noise of {sigma:g}: "
        "use a smaller batch, or more noise"
    )


def fit(whole: Floats, norms: Norms, indices: Integers, limit: int) -> Floats:
    """Integer rows W (float64[records, outputs]) shortened to |W|²·|X|² ≤ limit² exactly; else zero."""
    largest = norms.admissible(limit).take(indices)
    if whole.shape[1] == 1:
        return np.asarray(np.fmax(np.fmin(whole[:, 0], largest), -largest)[:, None])
    # No entry of an admissible row exceeds `largest`; once that holds the squares below are exact.
    np.clip(whole, -largest[:, None], largest[:, None], out=whole)
    squared = norms.squared[indices]
    room = float(limit * limit)
    for _ in range(2):
        # Monotone rounding makes this comparison exact: room is far below 2^53.
        lengths = np.einsum("ij,ij->i", whole, whole) * squared
        factor = np.where(lengths > room, np.sqrt(room / np.maximum(lengths, 1.0)) * SAFETY, 1.0)
        whole = np.trunc(whole * factor[:, None])
    whole[np.einsum("ij,ij->i", whole, whole) * squared > room] = 0.0
    return whole


def to_integers(total: Floats) -> Integers:
    """An exact sum as it leaves for the ring."""
    # Written so that a nan fails too.
    if not (total.min(initial=0.0) > -EXACT and total.max(initial=0.0) < EXACT):
        raise QueryError("a sum left the exact range although its terms were bounded: this is a defect, report it")
    return total.astype(np.int64)
