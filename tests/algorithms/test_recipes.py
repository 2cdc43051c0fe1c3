"""The three recipes of `auto`: who follows which, and what their steps are."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.algorithms.algorithm import Ask, Plan, Setting
from parley.algorithms.auto import Auto
from parley.algorithms.errors import AlgorithmError
from parley.algorithms.recipes import (
    LONGEST_WAY,
    NOISE_REACH,
    mean_step_of_features,
    mean_step_of_network,
    recipe_of,
)
from parley.algorithms.registry import build
from parley.learning.models import Linear, Softmax
from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.privacy.randomness import SystemRandomness
from parley.study.simulation import Federation, calibrate

Floats = NDArray[np.float64]

MODULE = "torch:hospital_models.nets:build"


def setting(model: str, normalised: bool = False, columns: int = 50, dimension: int = 50) -> Setting:
    return Setting(
        records=20_000, dimension=dimension, epsilon=1.0, delta=1e-5, feature_bound=math.sqrt(columns),
        model=model, columns=columns, intercept=True, normalised=normalised,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "normalised", "said", "follows"),
    [
        ("softmax", False, "by rule", "tables"),
        ("softmax", True, "by rule", "features"),
        ("logistic", True, "by rule", "features"),
        ("linear", True, "by rule", "tables"),  # noise of 2 in a score is much for a number that lies in [-1, 1]
        ("perceptron", True, "by rule", "tables"),
        (MODULE, False, "by rule", "networks"),
        (MODULE, True, "by rule", "networks"),
        ("softmax", False, "features", "features"),
        ("softmax", True, "tables", "tables"),
    ],
)
def test_which_recipe_a_run_follows_is_decided_by_public_facts(
    model: str, normalised: bool, said: str, follows: str
) -> None:
    assert recipe_of(setting(model, normalised), said) == follows


def test_a_recipe_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(AlgorithmError, match="use 'by rule' or one of tables, features, networks"):
        build("auto", {"recipe": "images"})


@pytest.mark.parametrize(
    ("model", "recipe", "says"),
    [
        ("linear", "features", "for logistic and softmax models: leave it out"),
        (MODULE, "features", "for logistic and softmax models: leave it out"),
        ("softmax", "networks", "the model is none: leave it out"),
    ],
)
def test_a_recipe_of_another_kind_of_model_is_refused(model: str, recipe: str, says: str) -> None:
    with pytest.raises(AlgorithmError, match=says):
        build("auto", {"recipe": recipe}).plan(setting(model))


def begun(planned: Setting, theta: Floats, noise: float) -> tuple[Auto, Plan]:
    algorithm = build("auto", {})
    assert isinstance(algorithm, Auto)
    plan = algorithm.plan(planned)
    algorithm.begin(plan, theta, noise, SystemRandomness())
    return algorithm, plan


def told(algorithm: Auto, plan: Plan, answer: Callable[[int, Ask], Floats]) -> None:
    for index in range(plan.releases):
        algorithm.tell(index, answer(index, algorithm.ask(index)))


def histogram(norm: float, top: float) -> Floats:
    """All records in the bucket of one norm; the outer buckets are open."""
    counts = np.zeros(24)
    counts[min(23, max(0, math.floor(-2 * math.log2(norm / top))))] = 1.0
    return counts


def test_noise_moves_a_score_over_features_by_what_the_recipe_says() -> None:
    """A run that hears noise and nothing else."""
    columns, noise, row = 4000, 0.01, 30.0
    rng = np.random.default_rng(7)
    algorithm, plan = begun(setting("logistic", True, columns, columns), np.zeros(columns), noise)

    def answer(index: int, ask: Ask) -> Floats:
        if "norms" in ask.kind:
            return histogram(0.5 * row, ask.scale)
        return rng.normal(0, noise, columns) if "gradient" in ask.kind else np.zeros(columns)

    told(algorithm, plan, answer)
    assert plan.releases == 207
    # A bucket is a factor of √2 wide, and its middle is taken.
    moved = float(np.std(algorithm.state["inner"])) * row
    assert moved == pytest.approx(algorithm.own.score_noise, rel=0.25)


def test_with_hardly_any_noise_a_way_over_features_is_still_bounded() -> None:
    row, clip, steps = 30.0, 1.5, 200
    step = mean_step_of_features(row, clip, 1e-12, steps, 2.0)
    assert step * clip * steps * row == pytest.approx(LONGEST_WAY)
    assert mean_step_of_features(row, clip, 0.0, steps, 2.0) == step


def test_a_network_moves_by_its_own_length_at_most_in_the_first_round_where_all_records_agree() -> None:
    theta = np.random.default_rng(3).normal(size=200)
    algorithm, plan = begun(setting(MODULE, dimension=200), theta, 0.0)
    agreed = np.eye(200)[0]
    before = theta
    lengths = []
    for index in range(plan.releases):
        ask = algorithm.ask(index)
        algorithm.tell(index, histogram(3.0, ask.scale) if ask.kind == "norms" else agreed)
        lengths.append(float(np.linalg.norm(algorithm.theta - before)))
        before = algorithm.theta
    assert lengths[0] == lengths[1] == 0.0
    assert lengths[2] == pytest.approx(np.linalg.norm(theta))
    assert all(later < earlier for earlier, later in pairwise(lengths[2:]))


def test_noise_moves_a_network_no_further_than_some_of_its_lengths() -> None:
    dimension, noise = 5000, 0.5
    rng = np.random.default_rng(3)
    theta = rng.normal(size=dimension)
    algorithm, plan = begun(setting(MODULE, dimension=dimension), theta, noise)
    told(
        algorithm,
        plan,
        lambda _, ask: histogram(3.0, ask.scale) if ask.kind == "norms" else rng.normal(0, noise, dimension),
    )
    moved = float(np.linalg.norm(algorithm.state["inner"] - theta))
    assert moved == pytest.approx(NOISE_REACH * np.linalg.norm(theta), rel=0.1)


def test_a_network_that_starts_at_zero_moves() -> None:
    assert mean_step_of_network(np.zeros(100), 1.0, 0.0, 300) == pytest.approx(0.05)


@pytest.mark.parametrize("norm", [1e-3, 3.0, 1e3])
def test_the_second_histogram_of_a_network_reaches_where_the_first_does_not(norm: float) -> None:
    """A bound on rows says little of the gradients of a network."""
    algorithm, _ = begun(setting(MODULE, columns=100), np.ones(50), 1e-6)
    for index in range(2):
        algorithm.tell(index, histogram(norm, algorithm.ask(index).scale))
    assert algorithm.number("median") == pytest.approx(norm, rel=0.3)


def clusters(count: int, columns: int, seed: int) -> Records:
    """Made up: three classes around a mean that all share, every row of one length."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(3, columns))
    targets = rng.integers(0, 3, count)
    rows = 3.0 + 0.35 * centres[targets] + rng.normal(size=(count, columns))
    rows *= math.sqrt(columns) / np.linalg.norm(rows, axis=1, keepdims=True)
    return Records(
        DenseRows.of(np.append(np.rint(16 * rows), np.full((count, 1), 16), axis=1), 4), targets.astype(np.float64)
    )


def test_over_normalised_rows_the_recipe_for_features_errs_less_than_that_for_tables() -> None:
    """Through a whole simulated federation, exact integers and the servers' noise."""
    train, test = clusters(6000, 60, 5), clusters(2000, 60, 6)
    model = Linear(61, Softmax(3))
    planned = replace(setting("softmax", True, 61, model.dimension), records=6000, feature_bound=math.sqrt(61) + 2)
    errors = {}
    for recipe in ("tables", "features"):
        algorithm = build("auto", {"recipe": recipe})
        plan = algorithm.plan(planned)
        chosen = calibrate(plan, {"a": 6000}, 1.0, 1e-5)
        run = Federation(algorithm, plan, model, {"a": train}, chosen.mechanism, 1)
        theta = run.run().theta
        found = model.scores(test.rows.take(np.arange(2000)), theta).argmax(axis=1)
        errors[recipe] = float((found != test.targets).mean())
    assert errors["features"] < errors["tables"]
