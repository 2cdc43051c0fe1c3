"""`auto`: the default recipe, by rule from public facts and released values; no data set is known by name.

Noisy gradient descent (Yu, Zhang, Chen, Yin and Liu, Algorithm 2) on large Poisson batches with heavy-ball momentum and
an averaged tail. What is otherwise tuned on private data follows from releases that the account counts like any other:

1. Clip. A noised histogram of gradient norms at θ = 0 (a perceptron's at θ_0); the clip norm C is a multiple of its
   median, which grows slowly as noise falls, for then bias costs more than noise. The mechanism's clip stays, parties
   scale gradients to it.
2. View, for linear models with an intercept. Feature rows share a mean that costs clip norm and says nothing, so that a
   noised mean m is released and parties see z = (x − m)·s. Of each coordinate of m only what noise does not explain is
   kept (James and Stein). s = sqrt(E|x − m| / 2E(x − m)²) does nothing to 0/1 columns, however rare, and stretches
   columns that are small in their public unit; the intercept is not to be most of a row. A model w for z is θ for x:
   θ_j = s_j·w_j, and m·θ less at the intercept.
3. Step. Noise may move a typical score by `score_noise` in the whole run, or the model by `step_factor` of the way that
   the signal has come, whichever is more (after DoG; Ivgi, Hinder and Carmon 2023): Ση_t = f·r_t / (ν·sqrt d), ν the
   deviation of the mean of its gradients; r_t = max |w_i − w_0|, less what noise explains. Never beyond what heavy
   ball is stable at for a loss of curvature L, 2(1 + β)/((1 − β)·L), with L from the median norm.
4. Batch. The sampling noise of T rounds at rate q is about a twentieth of the privacy noise at q = 3nμ²/(dT), with
   μ = ε/sqrt(2·log(1.25/δ)); between 1/16 and 1/2, and not so small that amplification ends.

That is the recipe for tables. Rows of features, all of one length, and networks have rules of their own for clip, step
and momentum (`parley.algorithms.recipes`); which of the three a run follows is decided by public facts.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Algorithm, Ask, Plan, Setting, register
from parley.algorithms.errors import AlgorithmError
from parley.algorithms.recipes import (
    RECIPES,
    Recipe,
    is_network,
    mean_step_of_features,
    mean_step_of_network,
    recipe_of,
)
from parley.algorithms.schedules import Output
from parley.algorithms.sums import combined, inner
from parley.federation.question import BUCKETS
from parley.privacy.clipping import GradientClip
from parley.privacy.randomness import Randomness

Floats = NDArray[np.float64]

RULES = 1
"""Which version of the rules this is."""
MEANS = 5
"""Rounds that estimate the mean of the rows"""
SPREADS = 4
"""and each of the two moments around it."""
LARGEST_SHARE = 1 / 2
"""Of the records, in a batch."""
SMALLEST_BATCH = 64
TOP = 4.0
"""The histogram begins at so many times the public bound of a feature row."""
HALF_POWER = math.sqrt(2)
CLEAR = 4.0
"""Standard deviations of noise above which a bucket of the histogram counts: all 24 stay below in 99.9 % of runs."""
RESIDUAL = {"logistic": 0.5, "softmax": 0.9, "linear": 0.5, "huber": 0.5}
"""About what a residual is at the start: exact for two classes; the models that a view is for."""
CURVATURE = {"logistic": 0.25, "softmax": 0.5, "linear": 1.0, "huber": 1.0}
"""The largest second derivative of a loss in its score."""
ROOM = 1.3
"""A row's clip norm over the typical row."""
DOUBT = 4.0
"""Deviations of noise that are added to both sides of a spread's ratio, so that where nothing is known it is 1."""
MOST_STRETCH = 2.0
WIDE = 0.55
"""Times the score noise where a linear model's rows are too wide for a view: text has few strong directions, in which
curvature pulls noise back, so that all of what is allowed is had."""
INTERCEPT_SHARE = 3.0
"""The intercept is at most one over this of the features' length."""
REFERENCE_NOISE = 0.005
"""|noise| / C of a whole run at which the clip is `clip_factor` times the median."""
CLIP_GROWTH = 0.15
"""Power of the noise by which the clip norm grows as noise falls, between 0.7 and 2.5 times"""
STABLE = 0.75
"""Of the step at which heavy ball would diverge"""
MEMORY = 0.1
"""Weight of the newest gradient in the running square of gradient norms, where the curvature is not known."""


@register("auto")
@dataclass(kw_only=True)
class Auto(Algorithm):
    paper: ClassVar[str] = "Yu, Zhang, Chen, Yin and Liu, Algorithm 2, with steps after DoG (Ivgi, Hinder and Carmon)"

    recipe: str = "by rule"
    """Or `tables`, `features`, `networks`. Features that somebody else has normalised, so that all rows have one
    length, are not known as such by their schema: say `features`."""
    clip_factor: float | None = None
    """The clip norm over the median gradient norm at the start; the recipe's where it is left out."""
    step_factor: float = 0.65
    """f: what noise may move the model, as a fraction of how far the signal has."""
    momentum: float | None = None
    """β; the recipe's where it is left out."""
    score_noise: float | None = None
    """What noise may move a typical score, whatever the signal; the recipe's where it is left out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.recipe not in ("by rule", *RECIPES):
            raise AlgorithmError(f"recipe is {self.recipe!r}: use 'by rule' or one of {', '.join(RECIPES)}")
        if self.output == Output():
            self.output = Output("average", 0.2)

    def plan(self, setting: Setting) -> Plan:
        self.chosen_recipe = recipe_of(setting, self.recipe)
        self.rules = rules = self.own_numbers(RECIPES[self.chosen_recipe])
        self.top = TOP * setting.feature_bound
        self.row_bound = setting.feature_bound
        self.model, self.columns = setting.model, setting.columns
        linear = setting.model in RESIDUAL
        self.viewed = linear and setting.intercept and setting.columns <= rules.most_columns
        # A residual of one half on a row of half the public bound; of a network nobody knows.
        network = self.chosen_recipe == "networks"
        self.fallback = 1.0 if network else setting.feature_bound / 4
        self.asked = ["norms", "norms"] if network else ["norms"]
        if self.viewed:
            self.asked += [kind for kind, count in PREPARED[self.chosen_recipe] for _ in range(count)]
        mu = setting.epsilon / math.sqrt(2 * math.log(1.25 / setting.delta))
        enough = 3 * setting.records * mu**2 / (setting.dimension * rules.steps)
        share = max(enough, rules.amplified * mu / math.sqrt(rules.steps))
        share = min(max(share, rules.smallest_share), LARGEST_SHARE)
        batch = min(setting.records, max(SMALLEST_BATCH, round(share * setting.records)))
        return Plan(batch, len(self.asked) + rules.steps, GradientClip(1.0), "poisson")

    def own_numbers(self, recipe: Recipe) -> Recipe:
        """The recipe, with what a study says in place of it."""
        given = {name: getattr(self, name) for name in ("clip_factor", "momentum", "score_noise")}
        return replace(recipe, **{name: value for name, value in given.items() if value is not None})

    def questions(self) -> dict[str, int]:
        kinds = ["gradient", *("norms" if "norms" in kind else MOMENTS[kind] for kind in self.asked)]
        seen = {f"framed {kind}" if self.viewed and kind in ("gradient", "norms") else kind: 1 for kind in kinds}
        return {"norms": 1} | seen  # the first histogram is of rows as read

    def begin(self, plan: Plan, theta: Floats, noise: float, randomness: Randomness) -> None:
        super().begin(plan, theta, noise, randomness)
        columns = self.columns if self.viewed else 1
        zero = np.zeros(1)
        # Lengths of rows follow from gradients at zero, wherever the descent starts; a network has none there.
        measured = theta.copy() if is_network(self.model) else np.zeros_like(theta)
        self.state |= {
            "top": np.array([self.top]), "median": zero, "row": zero, "clip": zero, "step": zero,
            "distance": zero, "drift": zero, "square": zero,
            "shift": np.zeros(columns), "scale": np.ones(columns), "mean": np.zeros(columns),
            "absolute": np.zeros(columns), "second": np.zeros(columns),
            "inner": measured, "origin": theta.copy(), "momentum": np.zeros_like(theta),
        }  # fmt: skip

    def ask(self, round_index: int) -> Ask:
        kind = self.asked[round_index] if round_index < len(self.asked) else "gradient"
        if kind == "gradient":
            return self.seen(kind, 1 / self.number("clip"))
        if "norms" in kind:
            top = self.number("top")
            return self.seen("norms", top) if round_index else Ask((self.state["inner"],), "norms", top)
        return Ask(self.frame(around=kind != "mean"), MOMENTS[kind], 1 / self.number("row"))

    def seen(self, kind: str, scale: float) -> Ask:
        """A question at w in the view, or at θ without one."""
        if not self.viewed:
            return Ask((self.state["inner"],), kind, scale)
        return Ask((*self.frame(), self.state["inner"]), f"framed {kind}", scale)

    def frame(self, around: bool = False) -> tuple[Floats, Floats]:
        """Shift and scale, as long as a model. `around` the mean nobody asks for the spread of the constant 1."""
        shift, scale = np.zeros(len(self.theta)), np.ones(len(self.theta))
        shift[: self.columns], scale[: self.columns] = self.state["shift"], self.state["scale"]
        shift[self.columns - 1] = float(around)
        return shift, scale

    def advance(self, round_index: int, estimate: Floats) -> None:
        if round_index >= len(self.asked):
            self.descend(round_index - len(self.asked), estimate)
            return
        kind = self.asked[round_index]
        if "norms" in kind:
            before = self.number("median") if round_index else self.fallback
            self.keep("median", self.median_norm(estimate, before))
            self.keep("row", min(self.row_bound, ROOM * self.number("median") / RESIDUAL.get(self.model, 0.5)))
            if self.chosen_recipe == "networks":
                # Where rows are long and gradients short, or the other way, the first histogram does not reach.
                self.keep("top", self.number("median") * HALF_POWER ** (BUCKETS // 2))
        else:
            self.state[kind] = self.state[kind] + estimate[: self.columns] * self.number("row") / ROUNDS[kind]
        if self.asked[round_index + 1 : round_index + 2] != [kind]:
            self.conclude(kind)
        if round_index == len(self.asked) - 1:
            self.start()

    def conclude(self, kind: str) -> None:
        """What the rounds of one kind are for: the shift, and then the scale of the view."""
        noise = self.number("noise") * self.number("row")
        if kind == "mean":
            mean = self.state["mean"]
            kept = np.maximum(0.0, 1 - noise**2 / MEANS / np.maximum(mean**2, 1e-300))
            self.state["shift"] = np.append((mean * kept)[:-1], 0.0)
        elif kind == "second":
            doubt = DOUBT * noise / math.sqrt(SPREADS) + 1e-9
            ratio = (np.maximum(self.state["absolute"], 0) + doubt) / (2 * np.maximum(self.state["second"], 0) + doubt)
            scale = np.sqrt(np.clip(ratio, MOST_STRETCH**-2, MOST_STRETCH**2))
            self.state["scale"] = np.append(scale[:-1], 1.0)
        elif kind == "last norms":
            # The intercept's column is 1, so that what it takes away from a row is known exactly.
            residual = RESIDUAL[self.model]
            features = max((self.number("median") / residual) ** 2 - 1, 0.05)
            intercept = math.sqrt(features) / self.rules.intercept_share
            if self.chosen_recipe == "tables":
                intercept = min(1.0, intercept)
            self.state["scale"] = np.append(self.state["scale"][:-1], intercept)
            self.keep("median", residual * math.sqrt(features + intercept**2))

    def start(self) -> None:
        """Everything is known: the clip, and the way that noise alone would be allowed."""
        median, noise = self.number("median"), self.number("noise")
        self.state["inner"] = self.inward(self.theta)
        self.state["origin"] = self.state["inner"]
        self.keep("clip", self.rules.clip_factor * median)
        clip, steps = self.number("clip"), self.rules.steps
        if self.chosen_recipe == "tables":
            self.start_tables()
        elif self.chosen_recipe == "features":
            row = median / RESIDUAL[self.model]
            self.keep("step", mean_step_of_features(row, clip, noise, steps, self.rules.score_noise))
        else:
            self.keep("step", mean_step_of_network(self.theta, clip, noise, steps))

    def start_tables(self) -> None:
        """A clip that grows as noise falls, and a distance: the step follows from it as the run goes on."""
        median, dimension = self.number("median"), len(self.theta)
        # Of the mean of all gradients of the run, in units of the clip.
        whole = self.number("noise") * math.sqrt(dimension / self.rules.steps)
        growth = min(max((REFERENCE_NOISE / max(whole, 1e-12)) ** CLIP_GROWTH, 0.7), 2.5)
        self.keep("clip", self.rules.clip_factor * growth * median)
        # Noise of norm c·r moves the score of a row |x| by c·r·|x|/sqrt(d), and |x| is about twice the median.
        wide = self.model in RESIDUAL and self.columns > self.rules.most_columns
        allowed = self.rules.score_noise * (WIDE if wide else 1.0)
        self.keep("distance", allowed * math.sqrt(dimension) / (2 * self.step_factor * median))

    def descend(self, step_index: int, estimate: Floats) -> None:
        """One step of heavy ball on the coordinates of the view."""
        clip, beta = self.number("clip"), self.rules.momentum
        gradient = estimate * clip + self.pulled(self.regulariser.gradient(self.theta))
        self.state["momentum"] = beta * self.state["momentum"] + (1 - beta) * gradient
        if self.chosen_recipe == "tables":
            weight = max(1 / (step_index + 1), MEMORY)
            self.keep("square", (1 - weight) * self.number("square") + weight * inner(gradient, gradient))
        step = self.step(clip) * 2 * (1 - step_index / self.rules.steps)
        self.state["inner"] = self.state["inner"] - step * self.state["momentum"]
        if self.chosen_recipe == "tables":
            self.measure(step, clip)
        self.theta = self.outward(self.state["inner"])

    def measure(self, step: float, clip: float) -> None:
        """How far the model has come, less what noise explains."""
        # What the noise alone would have moved the model by now, on average: it must not count as distance.
        noise = self.number("noise") * clip
        self.keep("drift", self.number("drift") + step**2 * noise**2 * len(self.theta))
        moved = self.state["inner"] - self.state["origin"]
        reached = math.sqrt(max(0.0, inner(moved, moved) - self.number("drift")))
        self.keep("distance", max(self.number("distance"), reached))

    def step(self, clip: float) -> float:
        """The mean step of a run that goes as far as this one has."""
        if self.chosen_recipe != "tables":
            return self.number("step")
        wanted, steps, beta = self.step_factor * self.number("distance"), self.rules.steps, self.rules.momentum
        if self.model not in CURVATURE:
            return wanted / max(math.sqrt(self.number("square") * steps), 1e-300)
        noise = self.number("noise") * clip * math.sqrt(len(self.theta) * steps)
        curvature = CURVATURE[self.model] * (self.number("median") / RESIDUAL[self.model]) ** 2
        stable = STABLE * (1 + beta) / ((1 - beta) * curvature)
        return min(wanted / max(noise, 1e-300), stable)

    def outward(self, inner: Floats) -> Floats:
        """θ from w"""
        if not self.viewed:
            return inner
        weights = self.state["scale"][:, None] * inner.reshape(self.columns, -1)
        weights[-1] -= combined(self.state["shift"], weights)
        return weights.ravel()

    def inward(self, theta: Floats) -> Floats:
        """w from θ"""
        if not self.viewed:
            return theta
        weights = theta.reshape(self.columns, -1).copy()
        weights[-1] += combined(self.state["shift"], weights)
        return np.asarray(weights / self.state["scale"][:, None]).ravel()

    def pulled(self, gradient: Floats) -> Floats:
        """A gradient in θ as one in w: the transpose of `outward`."""
        if not self.viewed:
            return gradient
        rows = gradient.reshape(self.columns, -1)
        return np.asarray(self.state["scale"][:, None] * (rows - self.state["shift"][:, None] * rows[-1])).ravel()

    def number(self, name: str) -> float:
        return float(self.state[name][0])

    def keep(self, name: str, value: float) -> None:
        self.state[name] = np.array([value])

    def median_norm(self, histogram: Floats, fallback: float) -> float:
        """The median of the noised histogram; counts that noise explains are none, and where all are, `fallback`."""
        threshold = CLEAR * self.number("noise")
        counts = np.where(histogram > threshold, histogram, 0.0)
        if not counts.sum() > 0:
            return fallback
        passed = np.cumsum(counts) / counts.sum()
        bucket = int(np.argmax(passed >= 0.5))
        inside = (0.5 - (passed[bucket - 1] if bucket else 0.0)) * counts.sum() / max(counts[bucket], 1e-300)
        return float(self.number("top") * HALF_POWER ** -(bucket + min(1.0, max(0.0, inside))))


SPREAD = (("absolute", SPREADS), ("second", SPREADS))
PREPARED = {
    "tables": (("mean", MEANS), ("middle norms", 1), *SPREAD, ("last norms", 1)),
    "features": (("mean", MEANS), ("last norms", 1)),
}
"""Kinds of rounds before the descent in a view, after the first histogram, and how many of each."""
MOMENTS = {"mean": "means", "absolute": "absolute means", "second": "square means"}
ROUNDS = {"mean": MEANS, "absolute": SPREADS, "second": SPREADS}
