"""Central methods: their bounds against densities computed outright, their noise's law, and where they may run."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.learning.models import Huber, Linear, Logistic
from parley.research.central.method import Target
from parley.research.central.objective import ObjectivePerturbation, minimise, plane_delta, shortened
from tests.support.central import D, N, records

Floats = NDArray[np.float64]


@pytest.mark.parametrize(("epsilon", "ratio"), [(0.5, 0.1), (1.0, 0.4), (0.3, 0.05), (2.0, 1.5)])
def test_the_closed_form_is_the_integral_of_the_bound(epsilon: float, ratio: float) -> None:
    r = np.linspace(0, 40, 4_000_001)
    ratio_left = np.exp(np.minimum(epsilon - ratio * r - ratio**2 / 2, 700))
    integral = float(np.sum(r * np.exp(-(r**2) / 2) * np.maximum(0, 1 - ratio_left)) * (r[1] - r[0]))
    assert plane_delta(epsilon, ratio) == pytest.approx(integral, rel=1e-5, abs=1e-12)


def log_density(theta: Floats, rows: Floats, targets: Floats, penalty: float, sigma: float) -> Floats:
    """Of the exact minimiser, by change of variables: of the noise that makes θ stationary, times the Jacobian."""
    n = len(rows)
    p = 1 / (1 + np.exp(-theta @ rows.T))
    noise_needed = (p - targets) @ rows + n * penalty * theta
    hessian = np.einsum("tn,ni,nj->tij", p * (1 - p), rows, rows) + n * penalty * np.eye(2)
    density = -(noise_needed**2).sum(axis=1) / (2 * sigma**2) - math.log(2 * math.pi * sigma**2)
    return np.asarray(density + np.log(np.linalg.det(hessian)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("epsilon", "delta", "share"), [(1.0, 1e-2, 0.5), (1.0, 1e-2, 0.05), (0.5, 1e-3, 0.5)])
def test_objective_perturbation_keeps_its_promise_on_densities_computed_outright(
    seed: int, epsilon: float, delta: float, share: float
) -> None:
    """δ(ε) between neighbours of few, extreme records, by quadrature over the plane: no sampling, no false alarm."""
    rng = np.random.default_rng(seed)
    n = 4
    angles = rng.uniform(0, 2 * np.pi, n + 1)
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    targets = rng.integers(0, 2, n + 1).astype(np.float64)
    if seed == 0:  # across: gradients that add up to more than either
        rows[n], targets[n] = rows[n - 1][::-1] * [1, -1], targets[n - 1]
    target = Target(n, 2, epsilon, delta, 1.0, 0.25, 1.0)
    method = ObjectivePerturbation(curvature_share=share)
    sigma, penalty = method.noise_scale(target), method.penalty(target)
    reach = 9 * sigma / (n * penalty)
    line = np.linspace(-reach, reach, 601)
    theta = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    first = np.exp(log_density(theta, rows[:n], targets[:n], penalty, sigma))
    kept = [*range(n - 1), n]
    second = np.exp(log_density(theta, rows[kept], targets[kept], penalty, sigma))
    cell = (line[1] - line[0]) ** 2
    assert first.sum() * cell == pytest.approx(1, abs=1e-4)
    for one, other in ((first, second), (second, first)):
        found = float(np.maximum(0, one - math.exp(epsilon) * other).sum() * cell)
        assert found <= delta
    assert np.abs(first - second).sum() * cell > 0.001  # the record does move the law


def test_the_papers_printed_deviation_is_smaller_than_the_bound_at_its_own_split() -> None:
    target = Target(10_000, 10, 0.5, 1e-9, 1.0, 0.25, 1.0)
    printed = math.sqrt(10 * math.log(1 / target.delta)) / target.epsilon
    assert printed < ObjectivePerturbation(curvature_share=0.5).noise_scale(target) < 2 * printed


@pytest.mark.parametrize("residual", [Logistic(), Huber(0.4)])
def test_the_minimum_has_no_gradient_left(residual: Logistic | Huber) -> None:
    data, tilt = records(), np.array([0.01, -0.02, 0.03])
    model = Linear(D, residual)
    theta, length = minimise(shortened(data, 2.0), data.targets, model, 0.01, tilt, 0.0)
    block = data.rows.take(np.arange(N))
    gradient = model.gradients(block, data.targets, theta).mean(axis=0) + tilt + 0.01 * theta
    assert np.linalg.norm(gradient) <= 1e-10
    assert length <= 1e-10


@pytest.mark.parametrize("seed", range(6))
def test_a_minimum_far_away_under_heavy_noise_is_found(seed: int) -> None:
    """Steep tilts and small penalties once left the line search stuck in the value's rounding."""
    data, rng = records(seed), np.random.default_rng(seed)
    for penalty in (1e-4, 1e-3, 1e-1):
        tilt = rng.normal(0, rng.choice([0.01, 0.1]), D)
        _, length = minimise(shortened(data, 2.0), data.targets, Linear(D, Logistic()), penalty, tilt, 0.0)
        assert length < 1e-7


def test_a_row_norm_shortens_rows_and_lowers_the_noise() -> None:
    data, model = records(), Linear(D, Logistic())
    rows = shortened(data, 0.3)
    lengths = np.linalg.norm(data.rows.take(np.arange(N)).dense() * 2.0**-8, axis=1)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), np.minimum(lengths, 0.3), rtol=1e-9)
    short = ObjectivePerturbation(row_norm=0.3)
    targets = [each.target(N, model, 1.0, 1e-5, 1.75) for each in (ObjectivePerturbation(), short)]
    assert targets[1].lipschitz == 0.3
    assert targets[1].smoothness == pytest.approx(0.09 / 4)
    assert short.noise_scale(targets[1]) == pytest.approx(short.noise_scale(targets[0]) * 0.3 / 1.75)
