"""Algorithms against their formulas, on released values alone."""

import numpy as np
import pytest

from parley.algorithms.errors import AlgorithmError
from parley.algorithms.registry import build, known
from tests.support.algorithms import started


@pytest.mark.parametrize(("gamma", "releases"), [(0.5, 21), (1.0, 41)])
def test_passes_count_the_gradients_that_are_evaluated(gamma: float, releases: int) -> None:
    """With γ = 1 there is no second point: as many passes make twice the rounds."""
    _, plan = started("ddp-srm", batch=100, gamma=gamma, passes=4.1)
    assert plan.releases == releases
    assert plan.passes(1000) == pytest.approx(4.1)


def test_unknown_names_parameters_and_estimates_are_refused() -> None:
    with pytest.raises(AlgorithmError, match="no algorithm 'sgd'"):
        build("sgd", {})
    with pytest.raises(AlgorithmError, match="no parameter 'lr'"):
        build("dp-sgd", {"lr": 1})
    algorithm, _ = started("dp-sgd")
    with pytest.raises(AlgorithmError, match="not finite"):
        algorithm.tell(0, np.array([1.0, np.nan, 0.0]))


def test_every_algorithm_names_its_paper() -> None:
    assert {"ddp-srm", "dp-sgd", "dp-gd", "rrpsgd", "dp-agd", "dp-adam", "auto", "nsgd", "storm"} <= set(known())
    for kind in known().values():
        assert kind.paper
