"""Central methods: their bounds against densities computed outright, their noise's law, and where they may run."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from parley.algorithms.errors import AlgorithmError
from parley.algorithms.registry import build_algorithm
from parley.algorithms.regularisers import Regulariser
from parley.cli.main import app
from parley.federation.kinds import CENTRAL
from parley.learning.models import Huber, Linear, Logistic
from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.mpc.randomness import Csprng
from parley.privacy.randomness import SystemRandomness
from parley.research.central.method import Own, Target, known
from parley.research.central.minima import MinimaPerturbation
from parley.research.central.noise import Noise, gaussian_delta, largest_ratio
from parley.research.central.objective import ObjectivePerturbation, minimise, plane_delta, shortened
from parley.research.central.pure_output import PureOutputPerturbation

Floats = NDArray[np.float64]
D, N = 3, 400


def noise(seed: int = 1, silent: bool = False) -> Noise:
    return Noise(Csprng(bytes([seed]) * 32), silent)


def records(seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    values = rng.integers(-128, 129, (N, D))
    targets = (values @ np.array([1.0, -2.0, 0.5]) + rng.normal(0, 60, N) > 0).astype(np.float64)
    return Records(DenseRows.of(values, 8), targets)


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


def test_amp_pays_for_the_distance_to_the_minimum() -> None:
    """γ/μ bounds the distance, and the second noise covers twice that at its share of ε and δ."""
    data, model = records(), Linear(D, Logistic())
    target, rows = Target(N, D, 1.0, 1e-5, 1.75, 1.75**2 / 4, 1.75), shortened(data, 1.75)
    for gamma in (1e-2, 1e-4):
        method = MinimaPerturbation(gradient_norm=gamma, output_share=0.1)
        penalty = method.penalty(method.parts(target)[0])
        exact, _ = minimise(rows, data.targets, model, penalty, np.zeros(D), 0.0)
        near, _ = minimise(rows, data.targets, model, penalty, np.zeros(D), gamma)
        assert np.linalg.norm(near - exact) <= gamma / penalty
        ratio = 2 * gamma / penalty / method.output_deviation(target)
        assert gaussian_delta(0.1, ratio) <= 1e-6
    assert MinimaPerturbation().noise_scale(target) > ObjectivePerturbation().noise_scale(target)


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


def test_ratios_come_from_below() -> None:
    for epsilon, delta in ((0.1, 1e-5), (1.0, 1e-9), (5.0, 1e-2)):
        for spent in (gaussian_delta, plane_delta):
            ratio = largest_ratio(epsilon, delta, spent)
            assert spent(epsilon, ratio) <= delta < spent(epsilon, ratio * (1 + 1e-6))


def test_the_pure_noise_has_a_gamma_norm_and_no_direction() -> None:
    """Mean and variance of 40,000 norms, and the mean direction: six standard errors: one false alarm in 1e8."""
    count, scale = 40_000, 0.3
    source = noise(3)
    drawn = np.stack([source.exponential_norm(scale, D) for _ in range(count)])
    norms = np.linalg.norm(drawn, axis=1) / scale
    assert abs(norms.mean() - D) < 6 * math.sqrt(D / count)
    # The fourth central moment of Gamma(k) is 3k² + 6k.
    assert abs(norms.var() - D) < 6 * math.sqrt((3 * D**2 + 6 * D - D**2) / count)
    assert (np.abs((drawn / norms[:, None] / scale).mean(axis=0)) < 6 * math.sqrt(1 / (D * count))).all()


def test_the_pure_noise_is_scaled_by_the_lemmas() -> None:
    target = Target(N, D, 0.5, 0.0, 1.5, 0.5, 1.5)
    convex = PureOutputPerturbation(iterations=20)
    assert convex.noise_scale(target) == pytest.approx(3 * 1.5 * 20 * (1 / 0.5) / N / 0.5, rel=2**-7)
    strong = PureOutputPerturbation(iterations=20, strength=0.1)
    beta = 0.6
    assert strong.noise_scale(target) == pytest.approx(10 * 1.5 * (0.1 + beta) / (N * 0.1 * beta) / 0.5, rel=2**-7)


@pytest.mark.parametrize("name", sorted(known()))
def test_the_average_of_parties_is_weighted_and_silent_noise_finds_the_minimum(name: str) -> None:
    method, model = known()[name](strength=0.05), Linear(D, Logistic())
    own: list[Own] = [(records(seed), noise(seed, True), SystemRandomness()) for seed in (1, 2)]
    together = method.train(own, model, 1.0, 1e-5, 1.75)
    apart = [method.train([each], model, 1.0, 1e-5, 1.75) for each in own]
    np.testing.assert_allclose(together, (apart[0] + apart[1]) / 2, rtol=1e-9)
    assert np.linalg.norm(together) > 0.1


def test_the_table_that_a_federation_refuses_by_names_every_central_method() -> None:
    assert set(CENTRAL) == set(known())


@pytest.mark.parametrize("name", sorted(known()))
def test_no_federation_can_be_asked_for_a_central_method(name: str) -> None:
    with pytest.raises(AlgorithmError, match="no mechanism accounts"):
        build_algorithm({"name": name}, Regulariser())


RUN = """
[data]
train = ["train.csv"]
test = ["train.csv"]
[schema]
format = "csv"
intercept = true
features = [{ name = "a", low = -2.0, high = 2.0 }]
target = { name = "ill", kind = "binary", positive = ["1"], negative = ["0"] }
[model]
kind = "logistic"
[algorithm]
name = "NAME"
strength = 0.05
[privacy]
epsilon = 2.0
delta = 1e-5
[federation]
parties = 2
"""


@pytest.mark.parametrize("name", sorted(known()))
def test_simulate_runs_it_and_says_whose_noise_it_is(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a = rng.normal(0, 1, 2000)
    ill = rng.random(2000) < 1 / (1 + np.exp(-2 * a))
    (tmp_path / "train.csv").write_text("a,ill\n" + "".join(f"{x},{int(y)}\n" for x, y in zip(a, ill, strict=True)))
    path = tmp_path / "run.toml"
    path.write_text(RUN.replace("NAME", name))
    result = CliRunner().invoke(app, ["simulate", str(path), "--seeds", "2", "--json"])
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout.strip().splitlines()[-1])["runs"]
    for run in runs:
        assert run["accountant"] == "own proof"
        assert "simulations only" in run["statement"]
        assert run["delta"] == (0.0 if name.startswith("pure") else 1e-5)
        assert run["test_error"] < 0.4
    assert runs[0]["test_loss"] != runs[1]["test_loss"]
