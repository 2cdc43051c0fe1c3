"""Per-record gradients of chunks of one public, padded shape; what one record does is confined to it.

A record whose arithmetic overflows is the kernel's to drop. One that makes the module raise, an index out of range for
instance, is found by running the same shape with other records replaced by a public one, and dropped alone: every other
record's numbers are those that it would have had beside any other, to the bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from parley.learning.errors import ModelError
from parley.models.losses import Tensor
from parley.models.network import Network
from parley.models.public_rows import public_rows
from parley.models.routes import Route
from parley.models.verified_import import said

Flags = NDArray[np.bool_]
Singles = NDArray[np.float32]
FORWARD_ROWS = 256
"""In a chunk of public rows where no gradient is kept."""
MOST_ROWS = 128
ANY = 1 << 40
"""Failures, where they are counted as those of records are, and never too many."""
NUMBERS_AT_ONCE = 1 << 21
"""Of one point's gradients: 8 MB, two points of a small network fit a processor's second cache."""


def usual_chunk(dimension: int) -> int:
    """A power of two, so that most batches need little padding."""
    most = min(MOST_ROWS, max(1, NUMBERS_AT_ONCE // dimension))
    return 1 << (most.bit_length() - 1)


class TooManyFailError(ModelError):
    """Nothing is answered any more: the next answer's time would tell how many they are."""


@dataclass
class Chunks:
    """A network on one route, in chunks of `size` records."""

    network: Network
    route: Route
    size: int
    failures: int | None = None
    """How many more records may be found to make it raise; None: any number. Each takes some passes to find, for which
    an answer that leaves at a fixed time has room for so many."""

    @cached_property
    def neutral(self) -> tuple[Tensor, Tensor]:
        """A public record: what pads, and what stands in for others while a failing one is looked for."""
        return public_rows(self.network, 1, "neutral")

    def gradients(self, flat: Tensor, inputs: Tensor, targets: Tensor, out: Tensor) -> Flags:
        """Into `out`, float32[size, dimension]; which records did not make the module raise. At most `size` records."""

        def run(x: Tensor, y: Tensor) -> None:
            self.route.gradients(flat, x, y, out)

        return self._confined(run, *self._padded(inputs, targets, self.size))

    def outcomes(self, flat: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Singles, Singles]:
        """Scores float32[records, outputs] and losses float32[records]; nan of a record that makes it raise."""
        rows = self.forward_rows
        parts = [
            self._outcomes(flat, inputs[start : start + rows], targets[start : start + rows], rows)
            for start in range(0, max(1, len(inputs)), rows)
        ]
        return np.concatenate([each[0] for each in parts]), np.concatenate([each[1] for each in parts])

    @property
    def forward_rows(self) -> int:
        """In a chunk where no gradient is kept. Of records no more than in any other: one that makes the module raise
        is looked for in as many passes, none of them slower than those that a slot has room for."""
        return FORWARD_ROWS if self.failures is None else self.size

    def _outcomes(self, flat: Tensor, inputs: Tensor, targets: Tensor, rows: int) -> tuple[Singles, Singles]:
        found: list[tuple[Tensor, Tensor]] = []
        padded = self._padded(inputs, targets, rows)
        sound = self._confined(lambda x, y: found.append(self.route.outcomes(flat, x, y)), *padded)
        scores, losses = (each.cpu().numpy().copy() for each in found[-1])
        scores[~sound], losses[~sound] = np.nan, np.nan
        return scores[: len(inputs)], losses[: len(inputs)]

    def among(self, inputs: Tensor, targets: Tensor, there: Flags) -> tuple[Tensor, Tensor]:
        """The public record where there is none: any other's place would have to be paid for where that one raises."""
        x, y = self.neutral
        kept = torch.from_numpy(there).to(self.network.device)
        wide = kept.view(-1, *[1] * (inputs.dim() - 1))
        return torch.where(wide, inputs, x), torch.where(kept, targets, y.to(targets.dtype))

    def _padded(self, inputs: Tensor, targets: Tensor, size: int) -> tuple[Tensor, Tensor]:
        missing = size - len(inputs)
        if missing == 0:
            return inputs, targets
        x, y = self.neutral
        return (
            torch.cat([inputs, x.expand(missing, *x.shape[1:])]),
            torch.cat([targets, y.to(targets.dtype).expand(missing)]),
        )

    def _confined(self, run: Callable[[Tensor, Tensor], None], inputs: Tensor, targets: Tensor) -> Flags:
        """Runs it on these records, those that fail replaced by the public one; which did not fail."""
        everyone = np.arange(len(inputs))
        try:
            run(inputs, targets)
        except Exception:
            failing = self._failing(run, inputs, targets, everyone)
        else:
            return np.ones(len(inputs), bool)
        sound = ~np.isin(everyone, failing)
        try:
            run(*self._only(inputs, targets, everyone[sound]))
        except Exception as error:
            raise ModelError(f"{self.network.spec.kind} fails on public rows: {said(error)}") from None
        return sound

    def _failing(
        self, run: Callable[[Tensor, Tensor], None], inputs: Tensor, targets: Tensor, among: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Those of `among` that fail, given that they do together: by halves, the rest replaced."""
        if len(among) == 1:
            self._count(1)
            return among
        found = []
        for half in np.array_split(among, 2):
            try:
                run(*self._only(inputs, targets, half))
            except Exception:
                found.append(self._failing(run, inputs, targets, half))
        if not found:  # none of them alone
            self._count(len(among))
        return np.concatenate(found) if found else among

    def _count(self, more: int) -> None:
        if self.failures is not None:
            self.failures -= more
            if self.failures < 0:
                raise TooManyFailError("more records make the module raise than an answer has time for")

    def _only(self, inputs: Tensor, targets: Tensor, kept: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """The same shape, every other record replaced by the public one."""
        x, y = self.neutral
        found = x.expand_as(inputs).clone(), y.to(targets.dtype).expand_as(targets).clone()
        found[0][kept], found[1][kept] = inputs[kept], targets[kept]
        return found
