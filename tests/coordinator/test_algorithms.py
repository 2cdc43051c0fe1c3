"""Algorithms against their formulas, on released values alone."""

import math

import numpy as np
import pytest

from parley.algorithms.algorithm import Algorithm, Plan, Setting
from parley.algorithms.auto import Auto
from parley.algorithms.errors import AlgorithmError
from parley.algorithms.registry import build, known
from parley.algorithms.regularisers import Regulariser
from parley.algorithms.schedules import Output, Schedule
from parley.federation.kinds import PROGRAMMES, kind_of
from parley.privacy.clipping import MomentumClip
from parley.privacy.randomness import SystemRandomness

SETTING = Setting(1000, 3, 0.5, 1e-5, 2.0)


def started(name: str, **parameters: object) -> tuple[Algorithm, Plan]:
    algorithm = build(name, dict(parameters))
    plan = algorithm.plan(SETTING)
    algorithm.begin(plan, np.zeros(3), 0.1, SystemRandomness())
    return algorithm, plan


@pytest.mark.parametrize("kind", ["nonconvex", "l2", "none"])
def test_a_regularisers_gradient_is_its_derivative(kind: str) -> None:
    penalty = Regulariser(kind, 0.0 if kind == "none" else 0.3)
    theta = np.array([0.5, -2.0, 0.0])
    for index in range(3):
        step = np.zeros(3)
        step[index] = 1e-6
        numeric = (penalty.value(theta + step) - penalty.value(theta - step)) / 2e-6
        assert penalty.gradient(theta)[index] == pytest.approx(numeric, abs=1e-8)


def test_ddp_srm_follows_algorithm_2() -> None:
    """Two rounds by hand: v^1 = q + (1 − γ)·v^0, θ moved by the schedule."""
    algorithm, plan = started("ddp-srm", gamma=0.25, step=0.5, decay="constant", batch=10, passes=1.0)
    assert plan.clip == MomentumClip(1.0, 0.01, 0.25)
    assert plan.steps == round((1000 - 10) / 20)
    first, second = np.array([1.0, 0.0, -1.0]), np.array([0.1, 0.2, 0.3])
    assert len(algorithm.ask(0).points) == 1
    algorithm.tell(0, first)
    np.testing.assert_allclose(algorithm.theta, -0.5 * first)
    asked = algorithm.ask(1).points
    np.testing.assert_allclose(asked[0], -0.5 * first)
    np.testing.assert_allclose(asked[1], 0.0)
    algorithm.tell(1, second)
    np.testing.assert_allclose(algorithm.theta, -0.5 * first - 0.5 * (second + 0.75 * first))


def test_the_adaptive_step_is_algorithm_1_line_5() -> None:
    algorithm, _ = started("dp-srm", zeta=0.1, smoothness=2.0)
    algorithm.tell(0, np.array([3.0, 4.0, 0.0]))
    np.testing.assert_allclose(np.linalg.norm(algorithm.theta), 0.1 / 2.0)
    small, _ = started("dp-srm", zeta=0.1, smoothness=2.0)
    small.tell(0, np.array([0.003, 0.004, 0.0]))
    np.testing.assert_allclose(np.linalg.norm(small.theta), 0.005 / 4)


def test_theorem_5_2_sets_every_parameter() -> None:
    algorithm, plan = started("ddp-srm-theory")
    zeta = (0.25 * math.log(2) * 3 * math.log(1e5)) ** 0.25 / math.sqrt(1000 * 0.5)
    assert isinstance(plan.clip, MomentumClip)
    assert plan.clip.difference_norm == pytest.approx(zeta)
    assert plan.clip.gamma == pytest.approx(zeta)
    assert plan.batch == round(1 / zeta)
    assert plan.steps == round(1000 * 0.5 * math.sqrt(0.25 * math.log(2)) / math.sqrt(3 * math.log(1e5)))
    assert algorithm.releases == plan.steps + 1


@pytest.mark.parametrize(("gamma", "releases"), [(0.5, 21), (1.0, 41)])
def test_passes_count_the_gradients_that_are_evaluated(gamma: float, releases: int) -> None:
    """With γ = 1 there is no second point: as many passes make twice the rounds."""
    _, plan = started("ddp-srm", batch=100, gamma=gamma, passes=4.1)
    assert plan.releases == releases
    assert plan.passes(1000) == pytest.approx(4.1)


def test_adam_and_rmsprop_cap_the_second_moment() -> None:
    for name, first in (("dp-rmsprop", 1.0), ("dp-adam", 0.1)):
        algorithm, _ = started(name, cap=0.04, floor=0.0, step=1.0, second_decay=0.0)
        algorithm.tell(0, np.array([1.0, 0.1, -1.0]))
        # sqrt(min(g², 0.04)) is 0.2, 0.1 and 0.2.
        np.testing.assert_allclose(algorithm.theta, -first * np.array([5.0, 1.0, -5.0]))


@pytest.mark.parametrize(
    ("name", "settings", "kept", "taken"),
    [
        ("dp-sgd", {"momentum": 0.9}, 0.9, 0.1),
        ("dp-sgd", {"momentum": 0.5, "decay": "linear"}, 0.5, 0.5),
        ("dp-sgd", {"momentum": 0.0, "decay": "linear"}, 0.0, 1.0),
        ("dp-gd", {"momentum": 0.9, "steps_taken": 30}, 0.9, 0.1),
        ("rrpsgd", {"momentum": 0.9, "batch": 100, "passes": 3.0}, 0.9, 0.1),
        ("ddp-srm", {"gamma": 0.25, "decay": "linear"}, 0.75, 1.0),
        # Divided by 1, whatever the second moment is: Adam's steps are its first.
        ("dp-adam", {"cap": 1e-300, "floor": 1.0}, 0.9, 0.1),
    ],
    ids=["sgd-0.9", "sgd-0.5", "sgd-0", "gd", "rrpsgd", "ddp-srm", "adam"],
)
def test_every_releases_weight_in_the_model_is_the_formulas(
    name: str, settings: dict[str, object], kept: float, taken: float
) -> None:
    """m_t = kept·m_{t−1} + taken·g_t from m_0 = 0: release t moves θ by −taken·Σ_{s ≥ t} η_s·kept^(s−t), no more."""
    algorithm = build(name, {"step": 0.25, "decay": "constant", **settings})
    plan = algorithm.plan(SETTING)
    rounds = plan.releases
    algorithm.begin(plan, np.zeros(rounds), 0.1, SystemRandomness())
    for index in range(rounds):  # release t is the t-th unit vector, so that θ's entries are the weights
        algorithm.tell(index, np.eye(rounds)[index])
    made = int(algorithm.state["rounds"][0]) if name == "rrpsgd" else rounds
    steps = Schedule(0.25, str(settings.get("decay", "constant")))
    eta = [steps.at(index, rounds) for index in range(made)]
    weights = [taken * sum(eta[s] * kept ** (s - t) for s in range(t, made)) for t in range(made)]
    np.testing.assert_allclose(-algorithm.theta[:made], weights, rtol=1e-12)
    np.testing.assert_array_equal(algorithm.theta[made:], 0.0)


def test_rrpsgd_stops_after_its_random_round() -> None:
    algorithm, plan = started("rrpsgd", batch=100, passes=2.0, step=0.1)
    rounds = int(algorithm.state["rounds"][0])
    assert 1 <= rounds <= plan.steps
    for index in range(plan.steps):
        algorithm.tell(index, np.ones(3))
    np.testing.assert_allclose(algorithm.theta, -0.1 * rounds)
    assert not algorithm.finished(rounds - 1)
    assert algorithm.finished(rounds)
    assert plan.passes(1000, rounds) == pytest.approx(rounds * 100 / 1000)
    with pytest.raises(AlgorithmError, match="2/β"):
        started("rrpsgd", step=9.0)


def test_output_rules_average_and_draw() -> None:
    averaged, plan = started("dp-sgd", batch=100, passes=1.0, step=1.0, decay="constant", output=Output("average", 0.3))
    for index in range(plan.steps):
        averaged.tell(index, -np.ones(3))
    # Iterates 8, 9 and 10 of ten.
    np.testing.assert_allclose(averaged.result(), 9.0)
    drawn, plan = started("dp-sgd", batch=100, passes=1.0, step=1.0, decay="constant", output=Output("random"))
    for index in range(plan.steps):
        drawn.tell(index, -np.ones(3))
    assert drawn.result()[0] == drawn.chosen
    assert 0 <= drawn.chosen < plan.steps


def test_auto_takes_its_clip_from_the_histograms_median() -> None:
    algorithm, _ = started("auto")
    assert isinstance(algorithm, Auto)
    histogram = np.zeros(24)
    histogram[6] = 100.0
    # Half way into the bucket that ends at top·2^−3.
    assert algorithm.median_norm(histogram, 0.5) == pytest.approx(8.0 * 2**-3.25)
    # Four deviations of noise, 0.1 each here, explain a count; then what was known before decides.
    assert algorithm.median_norm(0.002 * histogram, 0.5) == pytest.approx(0.5)


def viewed() -> Auto:
    """`auto` on two features and an intercept, without noise, through its preparation."""
    algorithm = build("auto", {"regulariser": Regulariser("l2", 0.1)})
    assert isinstance(algorithm, Auto)
    plan = algorithm.plan(Setting(1000, 3, 0.5, 1e-5, 2.0, columns=3, intercept=True))
    algorithm.begin(plan, np.zeros(3), 0.0, SystemRandomness())
    histogram = np.zeros(24)
    histogram[6] = 1.0
    answers = {
        "mean": np.array([0.5, -0.25, 1.0]),
        "absolute": np.array([0.5, 0.1, 0.0]),
        "second": np.array([0.5, 0.0125, 0.0]),
    }
    for index, kind in enumerate(algorithm.asked):
        asked = algorithm.ask(index)
        assert ("norms" in asked.kind) == ("norms" in kind)
        algorithm.tell(index, histogram if "norms" in kind else answers[kind] * asked.scale)
    return algorithm


def test_autos_view_is_made_of_released_means_and_spreads() -> None:
    algorithm = viewed()
    np.testing.assert_allclose(algorithm.state["shift"], [0.5, -0.25, 0.0])
    # sqrt(E|z| / 2E z²) is sqrt(1/2), and sqrt(4) = 2 is the most; rows of 2·8·2^−3.25 leave the intercept as it is
    # when the features' share is a third of it or more, and else shorten it.
    features = math.sqrt((2 * 8.0 * 2**-3.25) ** 2 - 1)
    np.testing.assert_allclose(algorithm.state["scale"], [math.sqrt(0.5), 2.0, min(1, features / 3)], rtol=1e-6)


def test_autos_view_changes_the_coordinates_and_not_the_model() -> None:
    algorithm = viewed()
    shift, scale = algorithm.state["shift"], algorithm.state["scale"]
    rng = np.random.default_rng(5)
    inner, row = rng.normal(size=3), np.array([0.7, -1.2, 1.0])
    theta = algorithm.outward(inner)
    assert row @ theta == pytest.approx(((row - shift) * scale) @ inner)
    np.testing.assert_allclose(algorithm.inward(theta), inner)
    # `pulled` is the transpose of `outward`, which is linear.
    outer = rng.normal(size=3)
    assert algorithm.pulled(outer) @ inner == pytest.approx(outer @ theta)


def test_auto_counts_as_distance_what_noise_does_not_explain() -> None:
    algorithm = viewed()
    first = len(algorithm.asked)
    algorithm.tell(first, np.array([1.0, 0.0, 0.0]))
    moved = np.linalg.norm(algorithm.state["inner"])
    assert algorithm.number("drift") == 0.0
    algorithm.state["noise"] = np.array([1e3])
    algorithm.state["distance"] = np.array([0.0])
    before = algorithm.state["inner"]
    algorithm.tell(first + 1, np.array([1.0, 0.0, 0.0]))
    # No distance is known, so that noise this large may not move the model.
    np.testing.assert_allclose(algorithm.state["inner"], before)
    assert algorithm.number("distance") == pytest.approx(moved)


def test_autos_step_is_one_that_heavy_ball_is_stable_at() -> None:
    """The worst quadratic of the assumed curvature, on the longest step."""
    algorithm = viewed()
    clip = algorithm.number("clip")
    algorithm.state["distance"] = np.array([1e9])
    curvature = 0.25 * (2 * algorithm.number("median")) ** 2
    step, beta = 2 * algorithm.step(clip), algorithm.momentum
    point, velocity = 1.0, 0.0
    for _ in range(200):
        velocity = beta * velocity + (1 - beta) * curvature * point
        point -= step * velocity
    assert abs(point) < 1


def test_auto_draws_more_where_privacy_noise_is_small() -> None:
    shares = []
    for epsilon in (0.1, 0.3, 4.0):
        setting = Setting(50_000, 20, epsilon, 1e-5, 2.0)
        shares.append(build("auto", {}).plan(setting).batch / 50_000)
    assert shares[0] == pytest.approx(1 / 16)
    assert shares[0] < shares[1] < shares[2] == 0.5


def test_loss_selection_takes_the_best_candidate_or_stays() -> None:
    algorithm, _ = started("dp-agd", candidates=3, largest_step=4.0, loss_scale=1.0)
    algorithm.tell(0, np.array([1.0, 0.0, 0.0]))
    asked = algorithm.ask(1)
    assert [float(point[0]) for point in asked.points] == [0.0, -4.0, -2.0, -1.0]
    algorithm.tell(1, np.array([0.5, -0.3, -0.1]))
    np.testing.assert_allclose(algorithm.theta, [-2.0, 0, 0])
    algorithm.tell(2, np.array([1.0, 0.0, 0.0]))
    algorithm.tell(3, np.array([0.5, 0.3, 0.1]))
    np.testing.assert_allclose(algorithm.theta, [-2.0, 0, 0])


def test_a_step_that_noise_explains_is_not_taken() -> None:
    """The public deviation of a loss difference is 0.1 here."""
    for promised, moved in ((-0.09, False), (-0.11, True)):
        algorithm, _ = started("dp-agd", candidates=1, largest_step=4.0, loss_scale=1.0)
        algorithm.tell(0, np.array([1.0, 0.0, 0.0]))
        algorithm.tell(1, np.array([promised]))
        assert bool(algorithm.theta.any()) == moved


def test_a_gradient_that_leads_nowhere_is_measured_again_and_averaged() -> None:
    """Lee and Kifer's adaptive budget: the search stays at its point and looks closer."""
    algorithm, _ = started("dp-agd", candidates=1, largest_step=4.0, loss_scale=1.0)
    algorithm.tell(0, np.array([1.0, 0.0, 0.0]))
    algorithm.tell(1, np.array([0.5]))
    algorithm.tell(2, np.array([0.0, 1.0, 0.0]))
    candidate = algorithm.ask(3).points[1]
    np.testing.assert_allclose(candidate / np.linalg.norm(candidate), [-(0.5**0.5), -(0.5**0.5), 0], atol=1e-12)
    algorithm.tell(3, np.array([-0.5]))
    np.testing.assert_allclose(algorithm.theta, candidate)
    algorithm.tell(4, np.array([0.0, 0.0, 1.0]))
    np.testing.assert_allclose(algorithm.state["direction"], [0, 0, 1])


@pytest.mark.parametrize("gamma", [0.4, 1.0])
def test_recursive_momentum_asks_at_as_many_points_as_parties_evaluate(gamma: float) -> None:
    """With γ = 1 the difference has weight zero: a party is asked at one point."""
    algorithm, plan = started("ddp-srm", gamma=gamma, batch=10)
    for index in range(3):
        assert len(algorithm.ask(index).points) == plan.clip.terms(index).points
        algorithm.tell(index, np.ones(3))


LINEAR = Setting(1000, 4, 0.5, 1e-5, 2.0, columns=4, intercept=True)
PERCEPTRON = Setting(1000, 50, 0.5, 1e-5, 2.0, "perceptron", 4, True)


@pytest.mark.parametrize("setting", [LINEAR, PERCEPTRON], ids=["linear", "perceptron"])
@pytest.mark.parametrize("name", sorted(known()))
def test_the_table_of_kinds_has_what_each_algorithm_asks_in_each_round_and_nothing_else(
    name: str, setting: Setting
) -> None:
    """By it a party refuses all else; an algorithm that is not in it could not run."""
    algorithm = build(name, {})
    plan = algorithm.plan(setting)
    algorithm.begin(plan, np.zeros(setting.dimension), 0.1, SystemRandomness())
    asked = set()
    for index in range(plan.releases):
        kind = algorithm.ask(index).kind
        assert kind == kind_of(name, plan.releases, index)
        asked.add(kind)
        lengths = {"norms": 24, "framed norms": 24, "losses": len(algorithm.ask(index).points) - 1}
        algorithm.tell(index, np.full(lengths.get(kind, setting.dimension), 1e-3))
    assert asked == set(algorithm.questions())
    assert set(PROGRAMMES) == set(known())


def test_a_run_of_another_length_than_the_algorithm_has_is_asked_nothing() -> None:
    assert kind_of("auto", 201, 200) == "gradient"
    assert kind_of("auto", 216, 200) == "framed gradient"
    assert kind_of("auto", 202, 0) is None
    assert kind_of("out-sgd", 1, 0) == "solution"
    assert kind_of("out-sgd", 2, 1) is None
    assert kind_of("objective-perturbation", 1, 0) is None


def test_schedules_decay_as_named() -> None:
    assert [Schedule(2.0, "linear").at(t, 4) for t in range(4)] == [2.0, 1.5, 1.0, 0.5]
    assert Schedule(2.0, "inverse-sqrt").at(3, 9) == 1.0
    assert Schedule(2.0, "cosine").at(2, 4) == pytest.approx(1.0)
    with pytest.raises(AlgorithmError, match="decay"):
        Schedule(1.0, "sometimes")


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
