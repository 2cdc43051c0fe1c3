"""Where a study's runs start and when they may stop, in a simulation as at a coordinator.

A start is a public model file of the same model and columns. A stop is decided on the public test set: where that is
held out of private records, whatever it decides would say something of them, and is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Algorithm
from parley.algorithms.early_stop import Stopper, evaluated_at
from parley.learning.evaluation import evaluate
from parley.learning.schema import Schema
from parley.models.warm import WarmStart, read_start
from parley.study.data import Sets
from parley.study.errors import StudyError

if TYPE_CHECKING:
    from parley.study.study import Study

Floats = NDArray[np.float64]


class EarlyStop:
    """Told of every iterate of one run."""

    def __init__(self, study: "Study", sets: Sets) -> None:
        assert study.stop_early is not None
        if sets.test is None or not sets.may_decide:
            raise StudyError(
                "stop_early decides on a public test set, and a part of the records is none: name one, as test or in "
                "[data], or leave stop_early out"
            )
        self._study, self._test, self._model = study, sets.test, study.new_model()
        self._stopper = Stopper(study.stop_early)

    def __call__(self, round_index: int, releases: int, algorithm: Algorithm) -> bool:
        """Whether to stop after this round."""
        if not evaluated_at(round_index, releases):
            return False
        theta, study = algorithm.result(), self._study
        found = evaluate(self._model, self._test, theta, study.regulariser, study.schema.target.kind)
        return self._stopper.tell(round_index, theta, found.loss)

    @property
    def best(self) -> Floats | None:
        """The model of the lowest loss so far."""
        return self._stopper.best

    @property
    def chosen(self) -> int | None:
        """The round whose model that is."""
        return None if self._stopper.best is None else self._stopper.best_round


def start_at(path: Path | None, algorithm: Algorithm, model: Mapping[str, Any], schema: Schema) -> WarmStart | None:
    """The model file that runs start from, read and checked; the algorithm has planned."""
    if path is None:
        return None
    if "solution" in algorithm.questions():
        raise StudyError(f"{algorithm.name} fits from nothing: leave start out, or choose another algorithm")
    return read_start(path, model, schema)


def start_of(study: "Study") -> WarmStart | None:
    """The same for a card."""
    return None if study.start is None else read_start(study.start, study.model_table(), study.schema)
