"""A question of `parley.learning.engine.Engine` as numbers, and what a worker makes of it.

Every list is computed in chunks of one public length, absent units among them, so that a record's own term is computed
in the same way wherever it is kept: floating point may depend on the shape of what it is computed with, and on nothing
else of it.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.federation.question import BUCKETS
from parley.learning.encoding import Scale
from parley.learning.engine import Engine
from parley.mpc.parts import NoiseParts
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Terms
from parley.privacy.sampling import Batch

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Question:
    """One of the three that an engine is asked."""

    kind: str
    """gradients, losses or norms"""
    lattice: Lattice
    scale: Scale
    terms: Terms | None = None
    times: float = 1.0
    """What losses are multiplied by; for norms, the histogram's top."""

    def length(self, dimension: int, points: int) -> int:
        """Of the answer."""
        return {"gradients": dimension, "losses": points - 1, "norms": BUCKETS}[self.kind]

    def as_json(self) -> dict[str, Any]:
        """JSON keeps every digit of a float."""
        return {
            "kind": self.kind,
            "lattice": asdict(self.lattice),
            "scale": asdict(self.scale),
            "terms": asdict(self.terms) if self.terms else None,
            "times": self.times,
        }

    @classmethod
    def of(cls, body: dict[str, Any]) -> "Question":
        parts = NoiseParts(**body["lattice"].pop("parts"))
        lattice = Lattice(**body["lattice"], parts=parts)
        terms = Terms(**body["terms"]) if body["terms"] else None
        return cls(body["kind"], lattice, Scale(**body["scale"]), terms, body["times"])

    def answered(
        self, engine: Engine, points: tuple[Floats, ...], places: Integers, present: Flags, chunk: int
    ) -> Integers:
        """The exact sum over a list; its length is a multiple of the chunk's."""
        total: Integers | None = None
        with np.errstate(all="ignore"):
            for start in range(0, len(places), chunk):
                part = Batch(places[start : start + chunk], present[start : start + chunk])
                found = self._one(engine, part, points)
                total = found if total is None else total + found
        assert total is not None
        return np.atleast_1d(total)

    def _one(self, engine: Engine, part: Batch, points: tuple[Floats, ...]) -> Integers:
        if self.kind == "losses":
            return engine.losses(part, points, self.times, self.lattice, self.scale)
        if self.kind == "norms":
            return engine.norms(part, points[0], self.times, self.scale)
        assert self.terms is not None
        return engine.gradients(part, points, self.terms, self.lattice, self.scale)
