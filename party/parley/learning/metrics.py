"""How good a model is on a PUBLIC set, each figure with a 95 % interval in closed form: nothing here draws a number.

    accuracy                Wilson's score interval
    auc                     DeLong, DeLong and Clarke-Pearson's variance from the placements (Sun and Xu's O(n log n)),
                            on the logit scale
    average precision       its influence function, on the logit scale
    loss, Brier, MAE        the standard error of a mean, on the log scale
    RMSE, R²                the delta method, on the log scale of the mean square and of 1 − R²
    calibration slope       the information of the logistic fit of the labels to the score

An interval says how much the figure would move with another public set of this size, its records independent; it is
narrower than the truth where a set has several records of one person. It says nothing of another seed of the noise.
A figure that the set cannot give (the area under the curve of one class, say) is left out, and one without an interval
(of a single record) has None for its ends: never a warning, never a number that JSON has no word for.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.learning.columns import Target
from parley.learning.errors import DataError
from parley.learning.models import Model, sigmoid
from parley.learning.records import Records
from parley.learning.rows import Block

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

CHUNK = 8192
Z = 1.959963984540054
"""Of the normal law: 2.5 % lie above it."""
NEWTON_STEPS = 100
LARGEST_SCORE = 1e100
"""So that squares stay finite. A model beyond it is none, and has no figures."""


@dataclass(frozen=True)
class Figure:
    """A figure and the ends of its 95 % interval, None where the set cannot give one."""

    value: float
    low: float | None = None
    high: float | None = None

    def as_json(self) -> dict[str, float | None]:
        return {"value": self.value, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        """0.892 (0.845 to 0.926)"""
        if self.low is None or self.high is None:
            return f"{self.value:.3g}"
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


def metrics(model: Model, records: Records, theta: Floats, target: Target) -> dict[str, Figure]:
    """All figures that fit the target's kind: see `of_labels`, `of_classes` and `of_numbers`. θ may be anything."""
    with np.errstate(all="ignore"):
        losses, scores = outputs(model, records, theta)
    if not np.abs(scores).max(initial=0.0) < LARGEST_SCORE:
        return {}
    if target.kind == "binary":
        return {**_only(loss=mean(losses)), **of_labels(scores[:, 0], records.targets)}
    if target.kind == "classes":
        return {**_only(loss=mean(losses)), **of_classes(scores, records.targets, target.classes)}
    return of_numbers(scores[:, 0] * target.spread, records.targets * target.spread)


def outputs(model: Model, records: Records, theta: Floats) -> tuple[Floats, Floats]:
    """Losses float64[records] and raw scores float64[records, outputs], in blocks."""
    if not len(records.rows):
        raise DataError("the set that a model is scored on has no rows: give at least one")
    losses, scores = [], []
    for start in range(0, len(records.rows), CHUNK):
        chosen = np.arange(start, min(start + CHUNK, len(records.rows)))
        block = records.rows.take(chosen)
        lost, scored = outcomes(model, block, records.targets[chosen], theta)
        losses.append(lost)
        scores.append(scored)
    return np.concatenate(losses), np.concatenate(scores)


def outcomes(model: Model, block: Block, targets: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """Losses and scores; of one pass where a model has both of it, as a network does."""
    at_once = getattr(model, "outcomes", None)
    if at_once is None:
        return model.losses(block, targets, theta), model.scores(block, theta)
    found: tuple[Floats, Floats] = at_once(block, targets, theta)
    return found


def of_labels(scores: Floats, targets: Floats) -> dict[str, Figure]:
    """Of two labels: accuracy, auc, average_precision, brier, calibration_slope. Targets are 0 and 1."""
    positive = targets > 0.5
    return _only(
        accuracy=share((scores > 0) == positive),
        auc=auc(scores, positive),
        average_precision=average_precision(scores, positive),
        brier=mean((sigmoid(scores) - positive) ** 2),
        calibration_slope=calibration_slope(scores, positive),
    )


def of_classes(scores: Floats, targets: Floats, labels: tuple[str, ...]) -> dict[str, Figure]:
    """accuracy, brier (summed over the classes, so up to 2), and `auc[LABEL]`: each class against all others."""
    truth = targets.astype(np.int64)[:, None] == np.arange(len(labels))
    chances = softmax(scores)
    each = {f"auc[{label}]": auc(chances[:, index], truth[:, index]) for index, label in enumerate(labels)}
    return _only(
        accuracy=share(scores.argmax(axis=1) == targets), brier=mean(((chances - truth) ** 2).sum(axis=1)), **each
    )


def of_numbers(predicted: Floats, true: Floats) -> dict[str, Figure]:
    """rmse, mae, r2; the first two in the target's own unit."""
    return _only(rmse=rmse(predicted - true), mae=mean(np.abs(predicted - true)), r2=r2(predicted, true))


def softmax(scores: Floats) -> Floats:
    """Rows that add up to one."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def as_json(figures: Mapping[str, Figure]) -> dict[str, dict[str, float | None]]:
    """For a card."""
    return {name: figure.as_json() for name, figure in figures.items()}


# ------------------------------------------------------------ single figures


def share(right: Flags) -> Figure | None:
    """The fraction of records that are true."""
    return wilson(float(right.mean()), len(right)) if len(right) else None


def wilson(value: float, count: int) -> Figure:
    """A share of `count` (Wilson 1927): it never leaves 0 to 1, and is no point where all records agree."""
    middle, grown = value + Z * Z / (2 * count), 1 + Z * Z / count
    reach = Z * math.sqrt(value * (1 - value) / count + Z * Z / (4 * count * count))
    # An end that is 0 or 1 is so exactly.
    return Figure(
        value,
        max(0.0, (middle - reach) / grown) if value > 0 else 0.0,
        min(1.0, (middle + reach) / grown) if value < 1 else 1.0,
    )


def mean(values: Floats) -> Figure | None:
    """Of what is never below zero."""
    if not len(values) or not np.isfinite(values).all():
        return None
    value = float(values.mean())
    if len(values) < 2 or value <= 0:
        return Figure(value)
    reach = math.exp(Z * _deviation(values) / math.sqrt(len(values)) / value)
    return Figure(value, value / reach, value * reach)


def rmse(errors: Floats) -> Figure | None:
    """The root of the mean square."""
    found = mean(errors**2)
    return found and Figure(*(None if each is None else math.sqrt(each) for each in _ends(found)))  # type: ignore[arg-type]


def r2(predicted: Floats, true: Floats) -> Figure | None:
    """1 − mean square error / variance. None where the true numbers are all the same."""
    if len(true) < 2 or not np.isfinite(predicted).all():
        return None
    errors, spread = (predicted - true) ** 2, (true - true.mean()) ** 2
    wrong, variance = float(errors.mean()), float(spread.mean())
    if variance <= 0:
        return None
    value = 1 - wrong / variance
    if wrong <= 0:
        return Figure(value)
    # log(1 − R²) = log of one mean − log of another, of the same records.
    reach = math.exp(Z * _deviation(errors / wrong - spread / variance) / math.sqrt(len(true)))
    return Figure(value, 1 - wrong / variance * reach, 1 - wrong / variance / reach)


def auc(scores: Floats, positive: Flags) -> Figure | None:
    """The chance that a positive record scores above a negative one, ties at half. None where one kind is absent.

    Where the placements do not vary (the kinds do not overlap, or one has a single record) DeLong's variance is zero
    or unknown. Then as many disjoint pairs as the rarer kind has records are counted: wider, and never a point.
    """
    above, below = np.sort(scores[positive]), np.sort(scores[~positive])
    if not len(above) or not len(below):
        return None
    wins, losses = _placements(above, below), 1 - _placements(below, above)
    value = float(wins.mean())
    if min(len(above), len(below)) < 2:
        return wilson(value, 1)
    error = math.sqrt(_deviation(wins) ** 2 / len(above) + _deviation(losses) ** 2 / len(below))
    return _on_logit_scale(value, error, min(len(above), len(below)))


def _placements(these: Floats, among: Floats) -> Floats:
    """Of each, the share of the other kind that is below it, ties at half. Both sorted."""
    count = np.searchsorted(among, these, "left") + np.searchsorted(among, these, "right")
    return np.asarray(count / (2 * len(among)))


def average_precision(scores: Floats, positive: Flags) -> Figure | None:
    """The mean over positive records of the precision at their score: scikit-learn's. None without a positive one.

    Its variance is the mean square of the influence of one record more. With T_i positive and F_i negative records at
    least as high as positive record i, P_i = T_i / (T_i + F_i): a positive record j adds P_j and raises P_i for all i
    it is not below by F_i / (T_i + F_i)², a negative one lowers them by T_i / (T_i + F_i)².
    """
    above, below = np.sort(scores[positive]), np.sort(scores[~positive])
    if not len(above):
        return None
    true = len(above) - np.searchsorted(above, above, "left")
    false = len(below) - np.searchsorted(below, above, "left")
    precision = true / (true + false)
    value = float(precision.mean())
    if not len(below):
        return Figure(value)
    raises = np.concatenate([[0.0], np.cumsum(false / (true + false) ** 2)])
    lowers = np.concatenate([[0.0], np.cumsum(true / (true + false) ** 2)])
    up = precision - value + raises[np.searchsorted(above, above, "right")]
    down = lowers[np.searchsorted(above, below, "right")]
    error = math.sqrt(float((up**2).sum() + (down**2).sum())) / len(above)
    return _on_logit_scale(value, error, len(above))


def calibration_slope(scores: Floats, positive: Flags) -> Figure | None:
    """b of the logistic fit logit P(positive) = a + b·score: 1 is right, below 1 is overconfident.

    None where the fit has no end: one kind is absent, or a threshold parts the kinds.
    """
    above, below = scores[positive], scores[~positive]
    if not len(above) or not len(below) or above.min() >= below.max() or below.min() >= above.max():
        return None
    scale = _deviation(scores)
    x = np.stack([np.ones(len(scores)), (scores - scores.mean()) / scale], axis=1)
    fitted = np.zeros(2)
    for _ in range(NEWTON_STEPS):
        chance = sigmoid(x @ fitted)
        (a, b), (_, c) = (x * (chance * (1 - chance))[:, None]).T @ x
        if not a * c - b * b > 1e-12 * a * c:
            return None
        inverse = np.array([[c, -b], [-b, a]]) / (a * c - b * b)
        step = inverse @ (x.T @ (positive - chance))
        fitted += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-10:
            error = math.sqrt(float(inverse[1, 1]))
            return Figure(*(float(each) / scale for each in (fitted[1], fitted[1] - Z * error, fitted[1] + Z * error)))
    return None


def _on_logit_scale(value: float, error: float, count: int) -> Figure:
    """An interval inside 0 to 1; where the error is none, that of a share of `count`."""
    if not 0 < value < 1 or error < 1e-12:
        return wilson(value, count)
    middle, reach = math.log(value / (1 - value)), Z * error / (value * (1 - value))
    low, high = (float(each) for each in sigmoid(np.array([middle - reach, middle + reach])))
    return Figure(value, low, high)


def _deviation(values: Floats) -> float:
    return float(values.std(ddof=1))


def _ends(figure: Figure) -> tuple[float | None, ...]:
    return figure.value, figure.low, figure.high


def _only(**figures: Figure | None) -> dict[str, Figure]:
    return {name: figure for name, figure in figures.items() if figure is not None}
