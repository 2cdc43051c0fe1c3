"""Figures and their intervals: scikit-learn's values, ends that cover as often as they say, and sets that give none."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from sklearn import metrics as oracle
from sklearn.linear_model import LogisticRegression

from parley.learning import metrics
from parley.learning.columns import Target
from parley.learning.errors import DataError
from parley.learning.metrics import Figure, of_classes, of_labels, of_numbers
from parley.learning.models import Linear, Logistic, Softmax, Squared, sigmoid
from parley.learning.records import Records
from parley.learning.rows import DenseRows

Floats = NDArray[np.float64]
pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # of what another test left open
]


def labelled(count: int, seed: int, slope: float = 1.5) -> tuple[Floats, Floats]:
    """Scores with ties, and labels."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(0, slope, count), 1)
    return scores, (rng.random(count) < sigmoid(scores)).astype(np.float64)


def test_figures_of_labels_are_those_of_scikit_learn() -> None:
    scores, targets = labelled(500, 2)
    found, chance = of_labels(scores, targets), sigmoid(scores)
    fitted = LogisticRegression(C=math.inf, tol=1e-10).fit(scores[:, None], targets)
    wanted = {
        "accuracy": oracle.accuracy_score(targets, scores > 0),
        "auc": oracle.roc_auc_score(targets, scores),
        "average_precision": oracle.average_precision_score(targets, scores),
        "brier": oracle.brier_score_loss(targets, chance),
        "calibration_slope": fitted.coef_[0, 0],
    }
    assert {name: figure.value for name, figure in found.items()} == pytest.approx(wanted, rel=1e-5)


def test_figures_of_classes_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    scores, targets = rng.normal(0, 1, (300, 3)), rng.integers(0, 3, 300).astype(np.float64)
    found, chances = of_classes(scores, targets, ("a", "b", "c")), metrics.softmax(scores)
    assert found["accuracy"].value == pytest.approx(oracle.accuracy_score(targets, scores.argmax(axis=1)))
    assert found["brier"].value == pytest.approx(oracle.brier_score_loss(targets, chances))
    for index, label in enumerate("abc"):
        assert found[f"auc[{label}]"].value == pytest.approx(oracle.roc_auc_score(targets == index, chances[:, index]))


def test_figures_of_numbers_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(4)
    true = rng.normal(10, 3, 200)
    predicted = true + rng.normal(0, 2, 200)
    found = of_numbers(predicted, true)
    assert found["rmse"].value == pytest.approx(oracle.root_mean_squared_error(true, predicted))
    assert found["mae"].value == pytest.approx(oracle.mean_absolute_error(true, predicted))
    assert found["r2"].value == pytest.approx(oracle.r2_score(true, predicted))


def test_a_share_has_the_interval_of_wilson() -> None:
    for right in (0, 3, 20):
        wanted = stats.binomtest(right, 20).proportion_ci(0.95, "wilson")
        found = metrics.share(np.arange(20) < right)
        assert found is not None
        assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_the_variance_of_an_area_is_delongs_by_the_definition() -> None:
    scores, targets = labelled(60, 5)
    above, below = scores[targets == 1], scores[targets == 0]
    wins = np.where(above[:, None] > below, 1.0, np.where(above[:, None] == below, 0.5, 0.0))
    variance = wins.mean(axis=1).var(ddof=1) / len(above) + wins.mean(axis=0).var(ddof=1) / len(below)
    found = of_labels(scores, targets)["auc"]
    assert found.low is not None
    assert found.high is not None
    width = math.log(found.high / (1 - found.high)) - math.log(found.low / (1 - found.low))
    reach = metrics.Z * math.sqrt(variance) / (found.value * (1 - found.value))
    assert width == pytest.approx(2 * reach)


def test_the_variance_of_average_precision_is_the_slope_of_the_figure_in_the_weight_of_each_record() -> None:
    """By differences: scikit-learn's figure with one record's weight a little above 1."""
    scores, targets = labelled(60, 6)
    step = 1e-6

    def weighted(index: int, by: float) -> float:
        weights = np.ones(60)
        weights[index] += by
        return float(oracle.average_precision_score(targets, scores, sample_weight=weights))

    slopes = [(weighted(index, step) - weighted(index, -step)) / (2 * step) for index in range(60)]
    found = of_labels(scores, targets)["average_precision"]
    assert found.low is not None
    assert found.high is not None
    width = math.log(found.high / (1 - found.high)) - math.log(found.low / (1 - found.low))
    reach = metrics.Z * math.sqrt(sum(each**2 for each in slopes)) / (found.value * (1 - found.value))
    assert width == pytest.approx(2 * reach, rel=1e-6)


SETS = 2000
RECORDS = 300
ALARM = 1e-6
"""Of one figure's test, if its interval covers exactly as often as the least that is asked of it."""


def covered(draw: Callable[[np.random.Generator, int], dict[str, Figure]], least: dict[str, float]) -> None:
    """Among SETS sets of RECORDS records, intervals that hold the figure of a set of 2,000,000."""
    rng = np.random.default_rng(11)
    true = {name: figure.value for name, figure in draw(rng, 2_000_000).items()}
    hits = dict.fromkeys(least, 0)
    for _ in range(SETS):
        found = draw(rng, RECORDS)
        for name in least:
            low, high = found[name].low, found[name].high
            hits[name] += low is not None and high is not None and low <= true[name] <= high
    for name, share in least.items():
        fewest, most = stats.binom.isf(1 - ALARM / 2, SETS, share), stats.binom.isf(ALARM / 2, SETS, 0.96)
        assert fewest <= hits[name] <= most, (name, hits[name] / SETS)


def test_intervals_of_labels_cover_95_times_in_a_hundred() -> None:
    """False alarms: 1e-6 a figure, if coverage is at least 0.94 (0.935 for average precision) and at most 0.96."""

    def draw(rng: np.random.Generator, count: int) -> dict[str, Figure]:
        score = rng.normal(-0.5, 1.5, count)
        targets = (rng.random(count) < sigmoid(score)).astype(np.float64)
        said = 0.3 + 1.4 * score
        loss = metrics.mean(np.logaddexp(0, said) - targets * said)
        assert loss is not None
        return {**of_labels(said, targets), "loss": loss}

    names = ("loss", "accuracy", "auc", "average_precision", "brier", "calibration_slope")
    covered(draw, {name: 0.935 if name == "average_precision" else 0.94 for name in names})


def test_intervals_of_numbers_cover_95_times_in_a_hundred() -> None:
    """False alarms: 1e-6 a figure, if coverage is between 0.94 and 0.96."""

    def draw(rng: np.random.Generator, count: int) -> dict[str, Figure]:
        predicted = rng.normal(0, 1, count)
        return of_numbers(predicted, predicted + rng.normal(0, 1, count))

    covered(draw, {"rmse": 0.94, "mae": 0.94, "r2": 0.94})


numbers = st.floats(-40, 40).map(lambda each: round(each, 1))


@given(st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=12))
def test_any_set_of_labels_gives_figures_that_json_can_say(records: list[tuple[float, bool]]) -> None:
    scores, targets = (np.array(each, np.float64) for each in zip(*records, strict=True))
    sane(of_labels(scores, targets))


@given(st.lists(st.tuples(numbers, numbers, st.integers(0, 2)), min_size=1, max_size=12))
def test_any_set_of_classes_or_numbers_gives_figures_that_json_can_say(records: list[tuple[float, float, int]]) -> None:
    one, other, classes = (np.array(each, np.float64) for each in zip(*records, strict=True))
    sane(of_classes(np.stack([one, other, -one], axis=1), classes, ("a", "b", "c")))
    sane(of_numbers(one, other))
    sane(of_numbers(one, one))
    sane(of_numbers(one * 1e50, classes))


def sane(found: dict[str, Figure]) -> None:
    json.dumps(metrics.as_json(found), allow_nan=False)
    for name, figure in found.items():
        assert (figure.low is None) == (figure.high is None)
        if figure.low is not None and figure.high is not None:
            assert figure.low <= figure.value + 1e-12 <= figure.high + 2e-12, name
            if name.startswith(("accuracy", "auc", "average")):
                assert 0 <= figure.low < figure.high <= 1, name


def test_what_a_set_cannot_say_is_left_out() -> None:
    one = np.ones(5)
    assert set(of_labels(one, one)) == {"accuracy", "average_precision", "brier"}
    assert set(of_labels(one, 0 * one)) == {"accuracy", "brier"}
    parted = of_labels(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0.0, 0.0, 1.0, 1.0]))
    assert "calibration_slope" not in parted
    assert (parted["auc"].value, parted["auc"].high) == (1.0, 1.0)
    assert parted["auc"].low == pytest.approx(2 / (2 + metrics.Z**2))  # two disjoint pairs in order
    assert "auc[b]" not in of_classes(np.eye(3)[[0, 0, 2]], np.array([0.0, 0.0, 2.0]), ("a", "b", "c"))
    assert "r2" not in of_numbers(one + 0.1, one)
    assert of_numbers(one[:1], one[:1] + 2) == {"rmse": Figure(2.0), "mae": Figure(2.0)}


def test_a_model_is_measured_in_its_datas_own_unit_and_one_that_overflows_has_no_figures() -> None:
    rows = DenseRows.of(np.array([[1], [2], [4]]), 0)
    number = Target("y", "number", low=0, high=100, centre=50, spread=10)
    found = metrics.metrics(Linear(1, Squared()), Records(rows, np.array([1.0, 2.0, 3.0])), np.array([1.0]), number)
    assert found["mae"].value == pytest.approx(10 / 3)
    binary = Target("y", "binary", ("1",), ("0",))
    records = Records(rows, np.array([0.0, 1.0, 1.0]))
    assert {"loss", "auc"} <= set(metrics.metrics(Linear(1, Logistic()), records, np.array([0.5]), binary))
    for bad in (np.inf, np.nan, 1e200):
        assert metrics.metrics(Linear(1, Logistic()), records, np.array([bad]), binary) == {}
    classes = Target("y", "classes", classes=("a", "b"))
    assert "auc[a]" in metrics.metrics(Linear(1, Softmax(2)), records, np.array([0.5, 0.1]), classes)


def test_a_set_without_rows_is_refused_in_words() -> None:
    nothing = Records(DenseRows.of(np.zeros((0, 1), np.int64), 0), np.zeros(0))
    with pytest.raises(DataError, match="has no rows: give at least one"):
        metrics.metrics(Linear(1, Logistic()), nothing, np.zeros(1), Target("y", "binary", ("1",), ("0",)))


def test_a_figure_is_said_with_its_interval() -> None:
    assert str(Figure(0.8921, 0.84512, 0.9264)) == "0.892 (0.845 to 0.926)"
    assert str(Figure(0.5)) == "0.5"
