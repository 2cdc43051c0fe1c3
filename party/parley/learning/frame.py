"""Features as seen from public numbers: (x − shift)·scale per column, rounded to exact integers.

Sparse and one-hot rows are long and nearly parallel, and what they share costs clip norm and says nothing: around their
mean they are a quarter shorter. A frame is public (a released mean, say); a record's row in it is a function of that
record and of the frame alone, so the clip bounds its term as it bounds any other, and sensitivity does not change.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.learning.errors import QueryError
from parley.learning.rows import DenseRows, Norms, Rows
from parley.learning.schema import LARGEST_SQUARED

Floats = NDArray[np.float64]

BITS = 8
"""Fraction bits of framed features: few, for the longer a row of integers, the coarser is its residual."""
LARGEST = 2.0**14
"""Of a framed feature, in the data's unit: what lies beyond is cut, and sooner where there are many columns."""
MOST_COLUMNS = 8192
"""Framed rows are dense."""
ROWS_AT_ONCE = 4096
FORMS = {"plain": np.positive, "absolute": np.abs, "square": np.square}


@dataclass(frozen=True, eq=False)
class Frame:
    """shift, scale: float64[columns], the intercept's included."""

    shift: Floats
    scale: Floats
    form: str = "plain"
    """Or `absolute` or `square`, of each framed feature: what its spread is estimated from."""

    def __post_init__(self) -> None:
        # What a caller does to its arrays later must not change what rows were computed from.
        object.__setattr__(self, "shift", self.shift.copy())
        object.__setattr__(self, "scale", self.scale.copy())

    def same_as(self, other: "Frame | None") -> bool:
        """Equal in every number: parties keep the rows of the last frame."""
        if other is None or other.form != self.form:
            return False
        return np.array_equal(self.shift, other.shift) and np.array_equal(self.scale, other.scale)

    def check(self, columns: int) -> None:
        """Refuse what rows of so many columns cannot be seen in."""
        if self.form not in FORMS:
            raise QueryError(f"a frame's form is {self.form!r}: use one of {', '.join(FORMS)}")
        if self.shift.shape != (columns,) or self.scale.shape != (columns,):
            raise QueryError(f"a frame needs a shift and a scale for each of the {columns:,} columns")
        if not (np.isfinite(self.shift).all() and np.isfinite(self.scale).all() and (self.scale > 0).all()):
            raise QueryError("a frame's numbers must be finite, and its scales above 0")
        if columns > MOST_COLUMNS:
            raise QueryError(f"rows of {columns:,} columns are kept as they are: frame at most {MOST_COLUMNS:,}")

    def rows(self, rows: Rows) -> DenseRows:
        """All rows of a party in this frame, in a type and within a limit that no record has a say in."""
        self.check(rows.dimension)
        held, squared = np.empty((len(rows), rows.dimension), np.int32), np.empty(len(rows))
        limit = float(largest_entry(rows.dimension))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            chosen = np.arange(start, min(start + ROWS_AT_ONCE, len(rows)))
            with np.errstate(all="ignore"):  # an infinity is cut like any other number
                framed = FORMS[self.form]((rows.take(chosen).dense() * 2.0**-rows.bits - self.shift) * self.scale)
            whole = np.rint(np.clip(framed * 2.0**BITS, -limit, limit))
            held[chosen], squared[chosen] = whole, np.einsum("ij,ij->i", whole, whole)
        return DenseRows(held, Norms.of(squared, BITS), BITS)


def largest_entry(columns: int) -> int:
    """Of a framed row, as the integer that is kept: a row with this in every column can still be counted exactly.

    A row that could not be would have to be refused, and the refusal would tell that there is one.
    """
    return min(int(LARGEST * 2**BITS), math.isqrt((int(LARGEST_SQUARED) - 1) // columns))
