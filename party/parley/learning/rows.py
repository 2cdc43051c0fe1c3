"""Feature rows as exact integers: dense, or sparse at a public width.

A feature x is held as the integer x·2^bits, once and for good: the model sees exactly the number that the encoding
counts, so every product, norm and sum that the sensitivity rests on is an integer below 2^53 in float64 arithmetic.
`take` touches the same amount of memory for every batch of one length: sparse rows are padded to a public width.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from parley.learning.errors import SchemaError
from parley.learning.schema import LARGEST_SQUARED

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FEW = 4
NUMBERS_AT_ONCE = 1 << 22
"""Looked at in float64 at a time, where norms are computed: 32 MB."""
SPARSE_GAIN = 16
"""A matrix is kept sparse where its width is this many times the public number of non-zeros."""


@dataclass(frozen=True)
class Norms:
    """Exact squared norms of the integer rows, and what follows from them, computed once per data set."""

    squared: Floats
    """float64[rows], integers below 2^52"""
    inverse: Floats
    """float64[rows]: 1/|x_i| in the data's unit; of a zero row, which contributes nothing, any finite number"""
    _admissible: dict[int, Floats] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, squared: Floats, bits: int) -> "Norms":
        if squared.size and not squared.max() < LARGEST_SQUARED:
            raise SchemaError("a feature row is too long to count exactly: lower the schema's bits or its bounds")
        return cls(squared, 2.0**bits / np.sqrt(np.maximum(squared, 1.0)))

    def admissible(self, limit: int) -> Floats:
        """The largest integer W with W²·|X_i|² ≤ limit², exactly, per row; 0 for a zero row. Cached: limits are few."""
        if limit not in self._admissible:
            self._admissible[limit] = whole_weights(self.squared, limit)
        return self._admissible[limit]


def whole_weights(squared: Floats, limit: int) -> Floats:
    """The largest integer W with W²·squared ≤ limit² (limit below 2^26), in integers; 0 where squared is 0."""
    quotient = np.floor_divide(limit * limit, np.maximum(squared, 1.0).astype(np.int64))
    root = np.sqrt(quotient.astype(np.float64)).astype(np.int64)
    root -= root * root > quotient
    root += (root + 1) * (root + 1) <= quotient
    return np.where(squared > 0, root, 0).astype(np.float64)


class Block(Protocol):
    """A batch of rows; 0 … dimension − 1 are the columns."""

    @property
    def bits(self) -> int: ...

    @property
    def norms(self) -> Norms: ...

    @property
    def indices(self) -> Integers:
        """Of these rows among all, and so in `norms`."""
        ...

    def __len__(self) -> int: ...

    def dot(self, weights: Floats) -> Floats:
        """Rows, in the data's unit, times float64[dimension, columns]."""
        ...

    def combine(self, coefficients: Floats) -> Floats:
        """Σ_i c_i ⊗ X_i for integer-valued c, float64[rows, columns]: exact, float64[dimension, columns]."""
        ...

    def dense(self) -> Floats:
        """The integer rows, float64[rows, dimension]."""
        ...

    def singles(self) -> NDArray[np.float32]:
        """The same in float32: exact below 2^24, for scores only."""
        ...

    def shorts(self) -> NDArray[np.int16] | None:
        """The same in 16 bits, where all rows of the party are kept in no more."""
        ...


class Rows(Protocol):
    """All rows of a party."""

    @property
    def bits(self) -> int: ...

    @property
    def norms(self) -> Norms: ...

    def __len__(self) -> int: ...

    @property
    def dimension(self) -> int: ...

    def take(self, indices: Integers) -> Block: ...


@dataclass(frozen=True)
class DenseBlock:
    raw: NDArray[np.number]
    norms: Norms
    indices: Integers
    bits: int

    def __len__(self) -> int:
        return len(self.raw)

    @cached_property
    def values(self) -> Floats:
        return self.raw.astype(np.float64, copy=False)

    def singles(self) -> NDArray[np.float32]:
        return self.raw.astype(np.float32)

    def shorts(self) -> NDArray[np.int16] | None:
        return self.raw.astype(np.int16, copy=False) if self.raw.dtype in (np.uint8, np.int16) else None

    def dot(self, weights: Floats) -> Floats:
        scaled = weights * 2.0**-self.bits
        if weights.shape[1] > FEW:
            return np.asarray(self.values @ scaled)
        # A product with few columns is twice as fast column by column.
        found = np.empty((weights.shape[1], len(self)))
        for column, vector in zip(found, scaled.T, strict=True):
            np.dot(self.values, np.ascontiguousarray(vector), out=column)
        return found.T

    def combine(self, coefficients: Floats) -> Floats:
        if coefficients.shape[1] == 1:
            return np.asarray(coefficients[:, 0] @ self.values)[:, None]
        return np.asarray(self.values.T @ coefficients)

    def dense(self) -> Floats:
        return self.values


@dataclass(frozen=True)
class SparseBlock:
    columns: Integers
    """int64[rows, width], 0 where padded."""
    values: Floats
    """float64[rows, width], 0 where padded."""
    norms: Norms
    indices: Integers
    bits: int
    dimension: int

    def __len__(self) -> int:
        return len(self.values)

    def dot(self, weights: Floats) -> Floats:
        scaled = weights * 2.0**-self.bits
        return np.asarray(np.einsum("ij,ijk->ik", self.values, scaled[self.columns]))

    def combine(self, coefficients: Floats) -> Floats:
        places = self.columns.ravel()
        sums = [
            np.bincount(places, weights=(self.values * column[:, None]).ravel(), minlength=self.dimension)
            for column in coefficients.T
        ]
        return np.stack(sums, axis=1)

    def dense(self) -> Floats:
        full = np.zeros((len(self), self.dimension))
        np.add.at(full, (np.arange(len(self))[:, None], self.columns), self.values)
        return full

    def singles(self) -> NDArray[np.float32]:
        return self.dense().astype(np.float32)

    def shorts(self) -> NDArray[np.int16] | None:
        return None


@dataclass(frozen=True)
class DenseRows:
    """values: integers[rows, dimension], in the narrowest type for their PUBLIC bounds: less to keep, less to gather.

    Never for the values themselves: one cell of one record would decide how long every answer takes.
    """

    values: NDArray[np.number]
    norms: Norms
    bits: int

    @classmethod
    def of(cls, values: NDArray[np.number], bits: int, reach: tuple[int, int] | None = None) -> "DenseRows":
        """`reach` is public: no value lies beyond it. Without it the type is that of `values`, 64 bits for floats."""
        held = values.astype(integer_type(reach) if reach else _own_type(values), copy=False)
        size = max(1, NUMBERS_AT_ONCE // max(1, held.shape[1]))
        squared = np.concatenate(
            [np.zeros(0), *(_squares(held[start : start + size]) for start in range(0, len(held), size))]
        )
        return cls(held, Norms.of(squared, bits), bits)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def dimension(self) -> int:
        return int(self.values.shape[1])

    def take(self, indices: Integers) -> DenseBlock:
        return DenseBlock(self.values.take(indices, axis=0), self.norms, indices, self.bits)


@dataclass(frozen=True)
class SparseRows:
    """columns, values: [rows, width] with width public; a row's padding has column 0 and value 0."""

    columns: Integers
    values: Floats
    norms: Norms
    bits: int
    dimension: int

    @classmethod
    def of(cls, columns: Integers, values: NDArray[np.number], bits: int, dimension: int) -> "SparseRows":
        if columns.shape != values.shape or (columns.size and not 0 <= columns.min() <= columns.max() < dimension):
            raise SchemaError(f"sparse rows name a column outside 0 … {dimension - 1}: correct the number of features")
        ordered = np.sort(np.where(values != 0, columns, -1 - np.arange(columns.shape[1])), axis=1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            # A column named twice in a row would make its squared norm wrong, and with it the clip.
            row = int(np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))[0])
            raise SchemaError(f"row {row + 1} names one column twice: merge the two entries")
        return cls(columns, values.astype(np.float64), Norms.of(_squares(values), bits), bits, dimension)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, indices: Integers) -> SparseBlock:
        return SparseBlock(self.columns[indices], self.values[indices], self.norms, indices, self.bits, self.dimension)


def _squares(values: NDArray[np.number]) -> Floats:
    wide = values.astype(np.float64)
    return np.asarray(np.einsum("ij,ij->i", wide, wide))


def integer_type(reach: tuple[int, int]) -> np.dtype[Any]:
    """The narrowest type that rows are kept in whose values lie within `reach`, which is public."""
    for kind in (np.uint8, np.int16, np.int32):
        limits = np.iinfo(kind)
        if limits.min <= reach[0] and reach[1] <= limits.max:
            return np.dtype(kind)
    return np.dtype(np.int64)


def _own_type(values: NDArray[np.number]) -> np.dtype[Any]:
    return values.dtype if np.issubdtype(values.dtype, np.integer) else np.dtype(np.int64)
