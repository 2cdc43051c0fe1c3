"""When a run stops by its public losses, and which of its models it keeps."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from parley.algorithms.early_stop import MOST_EVALUATIONS, Stopper, best_round, evaluated_at
from parley.federation.start_and_stop import StopEarly


def played(losses: Sequence[float], patience: int, least: float = 0.0) -> tuple[int | None, int]:
    """In which round it stops, and which round's model it has then."""
    stopper = Stopper(StopEarly(patience, least))
    for index, loss in enumerate(losses):
        if stopper.tell(index, np.array([float(index)]), loss):
            break
    else:
        index = None
    assert stopper.best is not None
    assert stopper.best[0] == stopper.best_round
    return index, stopper.best_round


@pytest.mark.parametrize(
    ("losses", "patience", "least", "stopped", "best"),
    [
        ([5, 4, 3, 2, 1], 1, 0.0, None, 4),
        ([5, 4, 4.5, 4.2, 4.1, 3], 3, 0.0, 4, 1),
        ([5, 4, 4.5, 3.9, 4.1, 4.2], 2, 0.0, 5, 3),
        ([5, 4.99, 4.98, 4.97], 3, 0.1, 3, 0),
        ([5, 5, 5, 5, 4, 6, 7], 2, 0.0, 6, 4),  # a model that has not moved counts neither way
        ([math.nan, 5, math.nan, math.inf, 4], 2, 0.0, 3, 1),
        ([math.nan, math.nan, math.nan], 1, 0.0, 1, 0),
        ([5, math.inf, math.inf, math.inf, 4], 3, 0.0, 3, 0),
        ([5, math.nan, math.inf, 4], 3, 0.0, None, 3),
    ],
)
def test_it_waits_so_long_and_keeps_the_best(
    losses: list[float], patience: int, least: float, stopped: int | None, best: int
) -> None:
    assert played(losses, patience, least) == (stopped, best)
    made = losses[: None if stopped is None else stopped + 1]
    assert best_round(StopEarly(patience, least), enumerate(made)) == best


def test_one_that_goes_on_from_a_checkpoint_decides_the_same() -> None:
    losses, rule = [5.0, 4.0, 4.5, 4.2, 4.1, 3.0], StopEarly(3)
    for cut in range(len(losses)):
        stopper = Stopper(rule)
        for index, loss in enumerate(losses[:cut]):
            stopper.tell(index, np.array([float(index)]), loss)
        later = Stopper(rule)
        later.restore(stopper.checkpoint())
        said = [later.tell(index, np.array([float(index)]), losses[index]) for index in range(cut, 5)]
        assert said == [index == 4 for index in range(cut, 5)]
        assert later.best_round == (1 if cut < 5 else stopper.best_round)


def test_without_an_evaluation_nothing_was_chosen() -> None:
    assert Stopper(StopEarly(1)).checkpoint() == {}
    assert best_round(StopEarly(1), []) is None


@pytest.mark.parametrize("releases", [1, 7, 50, 51, 216, 10_000])
def test_the_last_round_is_evaluated_and_never_many(releases: int) -> None:
    chosen = [index for index in range(releases) if evaluated_at(index, releases)]
    assert chosen[-1] == releases - 1
    assert len(chosen) <= 2 * MOST_EVALUATIONS
