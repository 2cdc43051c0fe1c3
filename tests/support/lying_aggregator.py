"""An aggregation server that does not follow its tape, from the moment that a file is there; all else is the product's.

python -m tests.support.lying_aggregator FILE parley.aggregator NODE

Its random bits are others than those of the seed that it has committed to. No sum shows that, and no message is wrong
by itself: a run goes on until an audit finds it, however many batches are not audited before.
"""

import runpy
import sys
from pathlib import Path
from typing import Any, Self

from parley.aggregator import noise
from parley.mpc.covert import CovertSession
from parley.mpc.handover import SEED_BYTES
from parley.mpc.randomness import Csprng, random_bytes
from parley.mpc.replay import SealedSampler
from parley.mpc.transfers import TransferSource


def lying(told: Path) -> type[CovertSession]:
    """Sessions that begin to lie when they are told to."""

    class Told(SealedSampler):
        def fed_by(self, source: TransferSource, rng: Csprng) -> Self:
            return super().fed_by(source, Csprng(random_bytes(SEED_BYTES)) if told.exists() else rng)

    class Lying(CovertSession):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            honest, self._sampler = self._sampler, Told.__new__(Told)
            vars(self._sampler).update(vars(honest))

    return Lying


if __name__ == "__main__":
    _, told, module, *rest = sys.argv
    vars(noise)["CovertSession"] = lying(Path(told))
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
