"""Output perturbation: the sensitivities hold on neighbouring data sets, and a party refuses what is not paid for."""

from dataclasses import replace

import numpy as np
import pytest

from parley.algorithms.algorithm import Plan, Setting
from parley.algorithms.registry import build
from parley.federation.question import LocalFit
from parley.learning.errors import QueryError
from parley.learning.local import constants, fit, require_reach
from parley.learning.models import Linear, Logistic
from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.privacy.clipping import GradientClip
from parley.privacy.errors import InvalidParameterError
from parley.privacy.mechanism import Unit
from parley.privacy.randomness import SystemRandomness
from parley.study.simulation import Federation, mechanism_of

D, N, BITS = 4, 60, 8


class Repeated:
    """The same bytes for two data sets, so that both see one permutation."""

    def read(self, count: int) -> bytes:
        return (bytes(range(7, 256)) * (count // 200 + 1))[:count]


def records(rng: np.random.Generator) -> tuple[Records, Records]:
    values = rng.integers(-128, 129, (N, D))
    targets = rng.integers(0, 2, N).astype(np.float64)
    other_values, other_targets = values.copy(), targets.copy()
    index = int(rng.integers(0, N))
    other_values[index] = np.roll(other_values[index], 1)
    other_targets[index] = 1 - other_targets[index]
    pairs = ((values, targets), (other_values, other_targets))
    # Entries of at most 1/2 in four columns.
    first, second = (Records(DenseRows.of(rows, BITS), labels, row_bound=1.0) for rows, labels in pairs)
    return first, second


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "local",
    [
        LocalFit("descent", 50, 3.0, 0.0, 1.0),
        LocalFit("descent", 200, 2.0, 0.1, 1.0),
        LocalFit("permuted-sgd", 2, 0.1, 0.0, 1.0),
    ],
)
def test_one_record_moves_a_local_fit_by_at_most_its_sensitivity(local: LocalFit, seed: int) -> None:
    first, second = records(np.random.default_rng(seed))
    model = Linear(D, Logistic())
    lipschitz, smoothness = constants(model, local.reach)
    moved = fit(first, model, local, Repeated()) - fit(second, model, local, Repeated())
    length = float(np.linalg.norm(moved))
    assert 0 < length <= local.sensitivity(lipschitz, smoothness, N)


def test_a_party_refuses_a_solution_that_the_mechanism_does_not_pay_for() -> None:
    first, _ = records(np.random.default_rng(0))
    model = Linear(D, Logistic())
    algorithm = build("output-perturbation", {"iterations": 20})
    plan = algorithm.plan(Setting(N, D, 1.0, 1e-5, 1.0))
    assert isinstance(plan.clip, GradientClip)
    for factor, paid in ((1.0, True), (0.98, False)):
        cheaper = Plan(plan.batch, plan.steps, GradientClip(plan.clip.norm * factor))
        mechanism = mechanism_of(cheaper, {"a": N}, 1e-5, 1.0, Unit())
        run = Federation(algorithm, cheaper, model, {"a": first}, mechanism, 0)
        if paid:
            expected = fit(first, model, LocalFit("descent", 20, 4.0, 0.0, 1.0), SystemRandomness())
            run.noise = False
            np.testing.assert_allclose(run.run().theta, expected, atol=1e-5)
        else:
            with pytest.raises(QueryError, match="pays for"):
                run.run()


def test_a_fit_for_shorter_rows_than_the_schema_admits_is_refused_without_a_look_at_them() -> None:
    first, _ = records(np.random.default_rng(0))
    require_reach(first, LocalFit("descent", 5, 1.0, 0.0, 1.0))
    for short in (first, replace(first, rows=DenseRows.of(np.zeros((N, D)), BITS))):
        with pytest.raises(QueryError, match="the schema admits 1:"):
            require_reach(short, LocalFit("descent", 5, 1.0, 0.0, 0.999))
    with pytest.raises(QueryError, match="the schema admits inf"):
        require_reach(replace(first, row_bound=np.inf), LocalFit("descent", 5, 1.0, 0.0, 1e30))
    with pytest.raises(QueryError, match="protects rows"):
        require_reach(replace(first, unit_column="patient"), LocalFit("descent", 5, 1.0, 0.0, 1.0))


@pytest.mark.parametrize(
    "numbers", [(1e-31, 0.0, 1.0), (1.0, 0.0, 1e31), (1.0, 1e-31, 1.0), (1.0, np.inf, 1.0), (1.0, np.nan, 1.0)]
)
def test_a_fits_numbers_are_such_that_can_be_counted_with(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidParameterError, match="from 1e-30 to 1e"):
        LocalFit("descent", 5, *numbers)
