"""An aggregation server whose audited noise leaks, from the moment that a file is there; all else is the product's.

python -m tests.support.lying_aggregator FILE parley.aggregator NODE
"""

import runpy
import sys
from pathlib import Path
from typing import Any

from parley.aggregator import noise
from parley.mpc.covert import CovertSession
from parley.mpc.gates import Gates
from parley.mpc.kernels import Bytes, Words
from parley.mpc.replay import SealedSampler
from parley.mpc.steps import Steps
from tests.support.covert import Leak


def leaking(told: Path) -> type[CovertSession]:
    """Sessions that begin to lie when they are told to."""

    class Told(Leak):
        def _product(self, gates: Gates, heights: Any, w: Words) -> Steps[tuple[Bytes, Words]]:
            kind = Leak if told.exists() else SealedSampler
            return (yield from kind._product(self, gates, heights, w))

    class Leaking(CovertSession):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            honest, self._sampler = self._sampler, Told.__new__(Told)
            vars(self._sampler).update(vars(honest))

    return Leaking


if __name__ == "__main__":
    _, told, module, *rest = sys.argv
    vars(noise)["CovertSession"] = leaking(Path(told))
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
