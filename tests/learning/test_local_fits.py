"""Output perturbation: the sensitivities hold on neighbouring data sets, and a party refuses what is not paid for."""

import numpy as np
import pytest

from coordinator.algorithm import Plan, Setting, build
from deploy.simulation import Federation, mechanism_of
from party.errors import QueryError
from party.local import LocalFit, constants, fit
from party.models import Linear, Logistic
from party.records import Records
from party.rows import DenseRows
from privacy.clipping import GradientClip
from privacy.mechanism import Unit
from privacy.randomness import SystemRandomness

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
    return Records(DenseRows.of(values, BITS), targets), Records(DenseRows.of(other_values, BITS), other_targets)


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


def test_a_row_beyond_the_public_bound_is_refused() -> None:
    first, _ = records(np.random.default_rng(0))
    with pytest.raises(QueryError, match="longer"):
        fit(first, Linear(D, Logistic()), LocalFit("descent", 5, 1.0, 0.0, 0.3), SystemRandomness())
