"""Randomness as a parameter: the one small protocol through which anything private draws.

Product code passes `SystemRandomness`. A test may pass a source of its own, which is why no function here reaches for
a generator by itself; there is deliberately no seedable source in the product.
"""

import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from parley.privacy.errors import InvalidParameterError


class Randomness(Protocol):
    """A cryptographically secure source of independent uniform bytes."""

    def read(self, count: int) -> bytes:
        """Exactly `count` fresh bytes, never to be returned again."""
        ...


class SystemRandomness:
    """The operating system's generator."""

    def read(self, count: int) -> bytes:
        """Bytes from `os.urandom`."""
        return os.urandom(count)


def uniform_words(source: Randomness, count: int) -> npt.NDArray[np.uint64]:
    """`count` independent words, uniform on 0 … 2^64 − 1."""
    return np.frombuffer(source.read(8 * count), dtype="<u8").astype(np.uint64, copy=False)


def uniform_below(source: Randomness, bound: int) -> int:
    """An integer exactly uniform on 0 … bound − 1."""
    return uniform_below_each(source, [bound])[0]


def uniform_below_each(source: Randomness, bounds: Sequence[int]) -> list[int]:
    """For each bound an integer exactly uniform below it, by rejection: a remainder alone would favour small numbers.

    The first words of all come in one read, for each read of `SystemRandomness` is a call of the kernel.
    """
    found = []
    for bound, word in zip(bounds, uniform_words(source, len(bounds)).tolist(), strict=True):
        if not 0 < bound <= 1 << 64:
            raise InvalidParameterError(f"cannot draw below {bound}: the bound must lie in 1 … 2^64")
        limit = (1 << 64) // bound * bound
        while word >= limit:
            word = int.from_bytes(source.read(8), "little")
        found.append(word % bound)
    return found
