"""A module by its name, where nothing may be imported: of the manifest's size, without numbers until it is bound.

A manifest is read, verified and refused long before anybody's code may run, and a party's own process never runs it.
"""

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from parley.learning.encoding import Scale
from parley.learning.errors import ModelError
from parley.learning.models import Model
from parley.learning.rows import Block
from parley.models.module_spec import ModuleSpec
from parley.mpc.clip_sums import LARGEST_STEPS
from parley.privacy.clipping import Terms

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class NamedModule:
    """What a manifest says of a module. Whoever has it running, here or in a process of its own, is bound to it."""

    spec: ModuleSpec
    given: int | None
    """The number of parameters, as the manifest has it."""
    runs: Model | None = None

    @property
    def dimension(self) -> int:
        if self.given is None:
            raise ModelError(
                f"how many parameters {self.spec.kind} has is known once it is opened: `parley model show` says it"
            )
        return self.given

    @property
    def largest_limit(self) -> int:
        return LARGEST_STEPS

    def bound(self, model: Model) -> "NamedModule":
        """The same with its numbers, refused where they are of another size."""
        if model.dimension != self.dimension:
            raise ModelError(
                f"{self.spec.kind} has {model.dimension:,} parameters and the manifest says {self.dimension:,}: "
                "write what `parley model show` says"
            )
        return replace(self, runs=model)

    def initial(self, words: NDArray[np.uint64]) -> Floats:
        return (self.runs or self._unbound()).initial(words)

    def contribution(
        self, block: Block, targets: Floats, present: Flags, points: tuple[Floats, ...], terms: Terms, scale: Scale
    ) -> Integers:
        return (self.runs or self._unbound()).contribution(block, targets, present, points, terms, scale)

    def gradients(self, block: Block, targets: Floats, point: Floats) -> Floats:
        return (self.runs or self._unbound()).gradients(block, targets, point)

    def gradient_norms(self, block: Block, targets: Floats, point: Floats) -> Floats:
        return (self.runs or self._unbound()).gradient_norms(block, targets, point)

    def losses(self, block: Block, targets: Floats, point: Floats) -> Floats:
        return (self.runs or self._unbound()).losses(block, targets, point)

    def scores(self, block: Block, point: Floats) -> Floats:
        return (self.runs or self._unbound()).scores(block, point)

    def _unbound(self) -> NoReturn:
        raise ModelError(f"{self.spec.kind} is named here and not opened: open it in a process that may run it")
