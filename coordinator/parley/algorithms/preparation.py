"""What `auto` measures before its descent: row lengths, the mean row, spreads, the mean label. Released values only.

Every question is one that a party's clip bounds (docs/learning.md, Queries): replacing one record moves its sum by at
most twice the mechanism's clip norm, whatever frame or point the question names. So no release here has a sensitivity
of its own, and the account, which counts rounds, needs no new event.

Frames and points are chosen so that one thing at a time is seen:

- Row lengths. |gradient| = |residual|·|row|, and at zero a classifier's residual is known: ½ for two labels,
  √(1 − 1/K) for K classes. A number's is not, so that its point says a number `FAR` times beyond the public bound of
  all targets, from which every target is about equally far. The intercept is made short, for features may be shorter.
- Mean label. A frame that makes the features vanish leaves the gradient at zero in the intercept: ½ − y, 1/K − y_k, or
  −y. Its length is known, or measured first, and is the clip's.
"""

import math

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Algorithm, Ask
from parley.federation.question import BUCKETS

Floats = NDArray[np.float64]

MEANS = 5
"""Rounds that estimate the mean of the rows"""
SPREADS = 4
"""and each of the two moments around it,"""
LABELS = 8
"""and the mean label."""
TOP = 4.0
"""The histogram begins at so many times the public bound of a feature row."""
MOST_TOP = 2.0**39
"""and no higher, for a party takes no question's scale beyond 2^40; what is longer counts in the highest bucket."""
HALF_POWER = math.sqrt(2)
CLEAR = 4.0
"""Standard deviations of noise above which a bucket of the histogram counts: all 24 stay below in 99.9 % of runs."""
LINEAR = ("logistic", "softmax", "linear", "huber")
"""The models that a view is for"""
NUMBERS = ("linear", "huber")
"""and those of them whose target is a number."""
UNKNOWN = 0.5
"""Of a residual, where nothing is measured."""
FAR = 64.0
"""Times the bound of all targets: from there they differ by one part in 64."""
SHORT = 2.0**-6
"""The intercept's length beside features: an integer of a frame's 8 bits."""
NOTHING = 2.0**-24
"""Times a feature: rounds to 0 in a frame."""
ROOM = 1.3
"""A row's clip norm over the typical row."""
TARGET_ROOM = 2.5
"""A target's clip norm over the typical one."""
DOUBT = 4.0
"""Deviations of noise that are added to both sides of a spread's ratio, so that where nothing is known it is 1."""
LEAST_STRETCH, MOST_STRETCH = 0.5, 8.0
MOST_UNIT = 2.0**10
"""Times which rows are seen that are shorter than 1"""
RARER = 2.0
"""Deviations of noise: no class counts as rarer than that."""

SPREAD = (("absolute", SPREADS), ("second", SPREADS))
TABLE = (("mean", MEANS), ("lengths", 1), *SPREAD, ("last lengths", 1))
PREPARED = {
    "tables": (*TABLE, ("labels", LABELS)),
    "numbers": (*TABLE, ("targets", 1), ("labels", LABELS), ("residuals", 1)),
    "features": (("mean", MEANS), ("last norms", 1)),
}
"""Kinds of rounds before the descent in a view, after the first histogram, and how many of each."""
MOMENTS = {"mean": "means", "absolute": "absolute means", "second": "square means"}
ROUNDS = {"mean": MEANS, "absolute": SPREADS, "second": SPREADS}
HISTOGRAMS = ("norms", "lengths", "last lengths", "last norms")


def question_of(kind: str) -> str:
    """What a party is asked in a round of this kind."""
    if kind in MOMENTS:
        return MOMENTS[kind]
    return {"norms": "norms", "labels": "framed gradient", "gradient": "gradient"}.get(kind, "framed norms")


def shrunk(values: Floats, deviation: float) -> Floats:
    """Less what noise of this deviation in each of them explains (James and Stein)."""
    squared = float(np.sum(values**2))
    return np.asarray(values * max(0.0, 1 - len(values) * deviation**2 / max(squared, 1e-300)))


def constant_model(model: str, residuals: Floats, deviation: float, records: int) -> Floats:
    """The scores of a model that looks at no feature, from mean residuals at zero.

    No class is rarer than noise can tell.
    """
    known = shrunk(residuals, deviation)
    if model in NUMBERS:
        return -known
    least = max(RARER * deviation, 1 / records)
    if model == "logistic":
        rate = np.clip(0.5 - known, min(0.5, least), 1 - min(0.5, least))
        return np.asarray(np.log(rate / (1 - rate)))
    rates = np.maximum(1 / len(known) - known, min(1 / len(known), least))
    rates = rates / rates.sum()
    return np.asarray(np.log(rates) - np.log(rates).mean())


class Prepared(Algorithm):
    """The rounds before the descent. `plan` of the algorithm sets what is public; the rest is in the state."""

    model: str
    columns: int
    outputs: int
    records: int
    viewed: bool
    chosen_recipe: str
    asked: list[str]
    top: float
    """Of the first histogram"""
    target_top: float
    """and of those of targets."""
    row_bound: float
    probe: float
    """A score that is far from all targets; 0 for classes."""
    residual: float
    """Its length where a row's is measured: exact for classes, nearly so for numbers in a view."""

    def fresh(self, theta: Floats) -> dict[str, Floats]:
        columns, zero = self.columns if self.viewed else 1, np.zeros(1)
        return {
            "top": np.array([self.top]), "median": zero, "row": zero, "length": zero,
            "spread": np.array([self.residual]),
            "shift": np.zeros(columns), "scale": np.ones(columns), "unit": np.ones(1), "mean": np.zeros(columns),
            "absolute": np.zeros(columns), "second": np.zeros(columns),
            "labels": np.zeros(self.outputs), "constant": np.zeros(self.outputs),
            # Lengths of rows follow from gradients at zero, wherever the descent starts; a network has none there.
            "inner": theta.copy() if self.model not in LINEAR else np.zeros_like(theta),
        }  # fmt: skip

    def prepare(self, round_index: int) -> Ask:
        """The question of a round before the descent."""
        kind = self.asked[round_index]
        top = self.number("top")
        if kind in MOMENTS:
            return Ask(self.frame(intercept=0.0 if kind != "mean" else 1.0), MOMENTS[kind], 1 / self.number("row"))
        if kind == "labels":
            return Ask((*self.bare(), self.at(np.zeros(self.outputs))), "framed gradient", 1 / self.number("spread"))
        if kind in ("targets", "residuals"):
            return Ask((*self.bare(), self.at(self.state["constant"])), "framed norms", self.target_top)
        if kind in ("lengths", "last lengths"):
            far = self.at(np.full(self.outputs, self.probe / SHORT))
            return Ask((*self.frame(intercept=SHORT), far), "framed norms", top)
        if kind == "last norms":
            return Ask((*self.frame(intercept=1.0), self.state["inner"]), "framed norms", top)
        start = self.at(np.full(self.outputs, self.probe)) if self.probe else self.state["inner"]
        return Ask((start,), "norms", top)

    def at(self, intercept: Floats) -> Floats:
        """A point that looks at no feature."""
        point = np.zeros((self.columns, self.outputs))
        point[-1] = intercept
        return point.ravel()

    def frame(self, intercept: float) -> tuple[Floats, Floats]:
        """Shift and scale, as long as a model, with the constant 1 seen as this; 0 shifts it away."""
        shift, scale = np.zeros(len(self.theta)), np.ones(len(self.theta))
        shift[: self.columns], scale[: self.columns] = self.state["shift"], self.state["scale"]
        shift[self.columns - 1], scale[self.columns - 1] = float(not intercept), intercept or 1.0
        return shift, scale

    def bare(self) -> tuple[Floats, Floats]:
        """A frame in which features vanish."""
        shift, scale = np.zeros(len(self.theta)), np.ones(len(self.theta))
        scale[: self.columns - 1] = NOTHING
        return shift, scale

    def take(self, round_index: int, estimate: Floats) -> None:
        """The answer of a round before the descent."""
        kind = self.asked[round_index]
        if kind in MOMENTS:
            self.state[kind] = self.state[kind] + estimate[: self.columns] * self.number("row") / ROUNDS[kind]
        elif kind == "labels":
            last = estimate.reshape(self.columns, self.outputs)[-1]
            self.state["labels"] = self.state["labels"] + last * self.number("spread") / LABELS
        elif kind in ("targets", "residuals"):
            self.keep("spread", self.median_of(estimate, self.target_top, self.target_top / 4))
        else:
            self.keep("median", self.median_of(estimate, self.number("top"), self.known_before(round_index)))
            self.keep("row", min(self.row_bound * self.number("unit"), ROOM * self.number("median") / self.residual))
            if self.chosen_recipe == "networks":
                # Where rows are long and gradients short, or the other way, the first histogram does not reach.
                self.keep("top", self.number("median") * HALF_POWER ** (BUCKETS // 2))
        if self.asked[round_index + 1 : round_index + 2] != [kind]:
            self.conclude(kind)

    def known_before(self, round_index: int) -> float:
        """What a median norm is taken for where noise hides the histogram."""
        if round_index:
            return self.number("median")
        return 1.0 if self.chosen_recipe == "networks" else self.row_bound / 2 * self.residual

    def conclude(self, kind: str) -> None:
        """What the rounds of one kind are for."""
        noise = self.number("noise") * self.number("row")
        if kind == "mean":
            mean = self.state["mean"]
            kept = np.maximum(0.0, 1 - noise**2 / MEANS / np.maximum(mean**2, 1e-300))
            self.state["shift"] = np.append((mean * kept)[:-1], 0.0)
        elif kind == "lengths":
            # Rows that are shorter than 1 are seen at length 1: what their squares are is lost in noise otherwise.
            unit = min(MOST_UNIT, max(1.0, self.residual / self.number("median")))
            self.keep("unit", unit)
            self.keep("row", self.number("row") * unit)
            self.keep("median", self.number("median") * unit)
            self.keep("top", min(MOST_TOP, self.number("top") * unit))
            self.state["scale"] = np.append(np.full(self.columns - 1, unit), 1.0)
        elif kind == "second":
            unit = self.number("unit")
            doubt = DOUBT * noise / math.sqrt(SPREADS) + 1e-9
            second = np.maximum(self.state["second"], 0) / unit
            ratio = (np.maximum(self.state["absolute"], 0) + doubt) / (2 * second + doubt)
            scale = unit * np.sqrt(np.clip(ratio, LEAST_STRETCH**2, MOST_STRETCH**2))
            self.state["scale"] = np.append(scale[:-1], 1.0)
        elif kind == "targets":
            self.keep("spread", min(self.target_top, TARGET_ROOM * self.number("spread")))
        elif kind == "labels":
            deviation = self.number("noise") * self.number("spread") / math.sqrt(LABELS)
            self.state["constant"] = constant_model(self.model, self.state["labels"], deviation, self.records)

    def median_of(self, histogram: Floats, top: float, fallback: float) -> float:
        """The median of a noised histogram; counts that noise explains are none, and where all are, `fallback`."""
        threshold = CLEAR * self.number("noise")
        counts = np.where(histogram > threshold, histogram, 0.0)
        if not counts.sum() > 0:
            return fallback
        passed = np.cumsum(counts) / counts.sum()
        bucket = int(np.argmax(passed >= 0.5))
        inside = (0.5 - (passed[bucket - 1] if bucket else 0.0)) * counts.sum() / max(counts[bucket], 1e-300)
        return float(top * HALF_POWER ** -(bucket + min(1.0, max(0.0, inside))))

    def number(self, name: str) -> float:
        return float(self.state[name][0])

    def keep(self, name: str, value: float) -> None:
        self.state[name] = np.array([value])
