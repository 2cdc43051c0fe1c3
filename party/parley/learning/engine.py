"""Who computes a batch's exact sums: this process (`Here`), one of its own, or workers of the institution's cluster.

An engine holds the records; what it is asked names them by number only. The batch is drawn by the party alone, of a
public length, absent units among it, so that what an engine is asked, and how long it computes, is public. Its answers
are sums of integers: however records are shared out over workers, each counts in the same way, up to a last bit of
floating point that may depend on its place (`parley.privacy.sampling`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from parley.federation.question import BUCKETS
from parley.learning.encoding import Scale
from parley.learning.models import Model
from parley.learning.records import Records
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Terms
from parley.privacy.sampling import Batch

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NUMBERS_AT_ONCE = 1 << 20
"""Features, or materialised unit gradients, in one chunk: 8 MB."""


class Engine(Protocol):
    """Exact sums over the present units of a batch. No record makes one fail, or slower."""

    def gradients(
        self, batch: Batch, points: tuple[Floats, ...], terms: Terms, lattice: Lattice, scale: Scale
    ) -> Integers:
        """Σ of each unit's clipped term: int64[dimension]."""
        ...

    def losses(
        self, batch: Batch, points: tuple[Floats, ...], times: float, lattice: Lattice, scale: Scale
    ) -> Integers:
        """Σ of each unit's vector (ℓ(θ_k) − ℓ(θ_0)) for k ≥ 1, times this and clipped: int64[points − 1]."""
        ...

    def norms(self, batch: Batch, point: Floats, top: float, scale: Scale) -> Integers:
        """How many units have a gradient norm in (top·2^(−k/2−1/2), top·2^(−k/2)], times the bound: int64[BUCKETS].

        The first and the last bucket are open; a unit of several records counts with the sum of their norms.
        """
        ...

    def close(self) -> None:
        """The run is over: whatever the engine has started ends, and it forgets the records."""
        ...


@dataclass(frozen=True)
class Here:
    """In this process, which has the records."""

    records: Records
    model: Model

    def gradients(
        self, batch: Batch, points: tuple[Floats, ...], terms: Terms, lattice: Lattice, scale: Scale
    ) -> Integers:
        by_unit = self.records.unit_column is not None
        of_units = getattr(self.model, "unit_contribution", None) if by_unit else None

        def answer(part: Batch) -> Integers:
            if of_units is not None:
                members = self.records.unit_members(part.indices)
                places = np.where(members >= 0, np.arange(members.size).reshape(members.shape), -1)
                flat = np.maximum(members, 0).ravel()
                block, targets = self.records.rows.take(flat), self.records.targets[flat]
                return np.asarray(of_units(block, targets, places, part.present, points, terms, scale))
            if by_unit:
                return _by_unit(part, self.records, self.model, points, terms, lattice, scale)
            block, targets = self.records.rows.take(part.indices), self.records.targets[part.indices]
            return self.model.contribution(block, targets, part.present, points, terms, scale)

        materialised = by_unit and of_units is None
        width = self.records.records_per_unit * self.model.dimension if materialised else 1
        return self._in_chunks(batch, width, answer)

    def losses(
        self, batch: Batch, points: tuple[Floats, ...], times: float, lattice: Lattice, scale: Scale
    ) -> Integers:
        return self._in_chunks(batch, 1, lambda part: self._losses(part, points, times, lattice, scale))

    def norms(self, batch: Batch, point: Floats, top: float, scale: Scale) -> Integers:
        return self._in_chunks(batch, 1, lambda part: self._norms(part, point, top, scale))

    def close(self) -> None:
        """Nothing was started."""

    def _in_chunks(self, batch: Batch, width: int, answer: Callable[[Batch], Integers]) -> Integers:
        """The sum over parts of the batch whose rows, `width` numbers each, take bounded memory; lengths are public."""
        size = max(1, NUMBERS_AT_ONCE // max(width, self.records.records_per_unit * self.records.rows.dimension))
        # Whole chunks of a model that pads them to one shape.
        own = getattr(self.model, "chunk", 1)
        size = max(own, size - size % own)
        if len(batch.indices) <= size:
            return answer(batch)
        parts = (slice(start, start + size) for start in range(0, len(batch.indices), size))
        answers = [answer(Batch(batch.indices[part], batch.present[part])) for part in parts]
        return np.asarray(np.sum(answers, axis=0, dtype=np.int64))

    def _losses(
        self, batch: Batch, points: tuple[Floats, ...], times: float, lattice: Lattice, scale: Scale
    ) -> Integers:
        members = self.records.unit_members(batch.indices)
        flat = np.maximum(members, 0).ravel()
        block, targets = self.records.rows.take(flat), self.records.targets[flat]
        losses = np.stack(
            [self.model.losses(block, targets, point, **self._there(members, batch)) for point in points], axis=1
        )
        differences = times * (losses[:, 1:] - losses[:, :1]).reshape(*members.shape, -1)
        rows = np.where((members >= 0)[:, :, None], differences, 0.0).sum(axis=1)
        encoded = lattice.encode_records(rows, scale.limit)
        return np.asarray((encoded * batch.present[:, None]).sum(axis=0))

    def _there(self, members: Integers, batch: Batch) -> dict[str, Any]:
        """For a model that a record can make raise: which rows are present records, and which only fill a place."""
        if not hasattr(self.model, "unit_contribution"):
            return {}
        return {"there": ((members >= 0) & batch.present[:, None]).ravel()}

    def _norms(self, batch: Batch, point: Floats, top: float, scale: Scale) -> Integers:
        members = self.records.unit_members(batch.indices)
        flat = np.maximum(members, 0).ravel()
        block, targets = self.records.rows.take(flat), self.records.targets[flat]
        norms = self.model.gradient_norms(block, targets, point, **self._there(members, batch)).reshape(members.shape)
        total = np.where(members >= 0, norms, 0.0).sum(axis=1)
        place = np.floor(-2 * np.log2(np.maximum(total, 1e-300) / top))
        sound = np.isfinite(total) & batch.present
        bucket = np.clip(np.where(sound, place, 0), 0, BUCKETS - 1).astype(np.int64)
        return scale.limit * np.bincount(bucket, weights=sound, minlength=BUCKETS).astype(np.int64)


def _by_unit(
    batch: Batch,
    held: Records,
    model: Model,
    points: tuple[Floats, ...],
    terms: Terms,
    lattice: Lattice,
    scale: Scale,
) -> Integers:
    """Units of several records: their gradients are summed before the clip."""
    members = held.unit_members(batch.indices)
    flat = np.maximum(members, 0).ravel()
    block, targets = held.rows.take(flat), held.targets[flat]
    mask = (members >= 0)[:, :, None]
    shape = (*members.shape, model.dimension)
    sums = [np.where(mask, model.gradients(block, targets, point).reshape(shape), 0.0).sum(axis=1) for point in points]
    wanted = terms.gradient_weight * clip_vectors(sums[0], terms.gradient_norm)
    if len(points) == 2:
        wanted += terms.difference_weight * clip_vectors(sums[0] - sums[1], terms.difference_norm)
    encoded = lattice.encode_records(wanted, scale.limit)
    return np.asarray((encoded * batch.present[:, None]).sum(axis=0))


def clip_vectors(rows: Floats, norm: float) -> Floats:
    """Each row shortened to `norm`, approximately: the exact bound is the encoding's. Not finite stays not finite."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    unit = rows / np.maximum(largest, 1e-300)[:, None]
    lengths = largest * np.sqrt(np.einsum("ij,ij->i", unit, unit))
    return np.asarray(rows * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))[:, None])
