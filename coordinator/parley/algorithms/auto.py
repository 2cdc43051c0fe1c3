"""`auto`: the default recipe, by rule from public facts and released values; no data set is known by name.

Noisy gradient descent (Yu, Zhang, Chen, Yin and Liu, Algorithm 2) on large Poisson batches with heavy-ball momentum and
an averaged tail. What is otherwise tuned on private data follows from releases that the account counts like any other:

1. Clip. Noised histograms of gradient norms where a residual's length is known tell how long rows are
   (`parley.algorithms.preparation`); C is a multiple of a typical residual's times that, which grows slowly as noise
   falls, for then bias costs more than noise. The mechanism's clip stays, parties scale gradients to it.
2. View, for linear models with an intercept. Feature rows share a mean that costs clip norm and says nothing, so that a
   noised mean m is released and parties see z = (x − m)·s. Of each coordinate of m only what noise does not explain is
   kept (James and Stein). s = sqrt(E|x − m| / 2E(x − m)²) does nothing to 0/1 columns, however rare, and stretches
   columns that are small in their public unit; the intercept is not to be most of a row. A model w for z is θ for x:
   θ_j = s_j·w_j, and m·θ less at the intercept. The descent starts at the mean label, which is released, too.
3. Step. Noise may move a typical score by `score_noise` in the whole run, or the model by `step_factor` of the way that
   the signal has come, whichever is more (after DoG; Ivgi, Hinder and Carmon 2023): Ση_t = f·r_t / (ν·sqrt d), ν the
   deviation of the mean of its gradients; r_t = max |w_i − w_0|, less what noise explains. Never beyond what heavy
   ball is stable at for a loss of curvature L, 2(1 + β)/((1 − β)·L), with L from the typical row.
4. Batch. The sampling noise of T rounds at rate q is about a twentieth of the privacy noise at q = 3nμ²/(dT), with
   μ = ε/sqrt(2·log(1.25/δ)); between 1/16 and 1/2, and not so small that amplification ends.
5. Result. Released gradients along the path say by how much the features' part has changed the loss, and noise by how
   much that may be wrong. Where it is higher by `HARM` deviations, the model is the start, which has no features.

That is the recipe for tables. Rows of features, all of one length, and networks have rules of their own for clip, step
and momentum (`parley.algorithms.recipes`); which of the three a run follows is decided by public facts.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Ask, Plan, Setting, register
from parley.algorithms.errors import AlgorithmError
from parley.algorithms.preparation import FAR, LINEAR, MOST_TOP, NUMBERS, PREPARED, TOP, UNKNOWN, Prepared, question_of
from parley.algorithms.recipes import (
    NARROW,
    RECIPES,
    Recipe,
    mean_step_of_features,
    mean_step_of_network,
    recipe_of,
)
from parley.algorithms.schedules import Output
from parley.algorithms.sums import combined, inner
from parley.privacy.clipping import GradientClip
from parley.privacy.randomness import Randomness

Floats = NDArray[np.float64]

RULES = 2
"""Which rules these are. A manifest says its own, and is refused by an installation that has others."""
LARGEST_SHARE = 1 / 2
"""Of the records, in a batch."""
SMALLEST_BATCH = 64
SMALLEST_ROW = 2.0**-9
"""Of what features are in a view, at least: its rows are integers of 8 bits."""
WIDE = 0.55
"""Times the score noise where a linear model's rows are too wide for a view: text has few strong directions, in which
curvature pulls noise back, so that all of what is allowed is had."""
REFERENCE_NOISE = 0.005
"""|noise| / C of a whole run at which the clip is `clip_factor` times the median."""
CLIP_GROWTH = 0.15
"""Power of the noise by which the clip norm grows as noise falls, between 0.7 and 2.5 times"""
STABLE = 0.75
"""Of the step at which heavy ball would diverge"""
MEMORY = 0.1
"""Weight of the newest gradient in the running square of gradient norms, where the curvature is not known."""
FEATURES_RESIDUAL = 0.9
"""About what a softmax residual is at zero: the constants of `features` were chosen with it."""
DEVIATION = 1.5
"""Over the median of absolute values, of normal ones: residuals of numbers are all lengths, of classes at first one."""
CLASS_REACH = 2 / 3
"""Power of log2 of the number of classes, by which noise may move scores further: those of many lie further apart."""
CLASS_CURVATURE = 2.0
"""Over the number of classes, and at most one half: the largest second derivative of softmax in its scores."""
HARM = 1.0
"""Deviations of noise by which the descent must seem to have raised the loss, or its model is the result."""


NOT_LEARNED = (
    "noise hides whatever the columns say, so that the model looks at them as little as at the start: "
    "give more records, fewer columns, or a larger epsilon"
)


@register("auto")
@dataclass(kw_only=True)
class Auto(Prepared):
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
    rules: int = RULES
    """Which version of these rules; a study leaves it out, a manifest says it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.recipe not in ("by rule", *RECIPES):
            raise AlgorithmError(f"recipe is {self.recipe!r}: use 'by rule' or one of {', '.join(RECIPES)}")
        if self.rules != RULES:
            raise AlgorithmError(
                f"rules is {self.rules} and `auto` follows rules {RULES} here: leave it out of a study; draft a "
                "manifest again, or run it with the version of parley that it was drafted with"
            )
        if self.output == Output():
            self.output = Output("average", 0.2)

    def plan(self, setting: Setting) -> Plan:
        self.chosen_recipe = recipe_of(setting, self.recipe)
        self.own = rules = self.own_numbers(RECIPES[self.chosen_recipe])
        self.row_bound, self.records = setting.feature_bound, setting.records
        self.model, self.columns = setting.model, setting.columns
        linear, numbers = setting.model in LINEAR, setting.model in NUMBERS
        self.outputs = max(1, setting.dimension // max(1, setting.columns)) if linear else 1
        dense = setting.columns <= NARROW or setting.records * setting.columns <= rules.most_cells
        self.viewed = linear and setting.intercept and setting.columns <= rules.most_columns and dense
        tables = self.viewed and self.chosen_recipe == "tables"
        self.probe = FAR * setting.target_bound if numbers and tables else 0.0
        self.target_top = min(MOST_TOP, 2 * setting.target_bound)
        self.residual = self.known_residual(setting)
        self.top = min(MOST_TOP, TOP * setting.feature_bound * (self.residual if self.probe else 1.0))
        self.asked = ["norms", "norms"] if self.chosen_recipe == "networks" else ["norms"]
        if self.viewed:
            prepared = PREPARED["numbers" if self.probe else self.chosen_recipe]
            self.asked += [kind for kind, count in prepared for _ in range(count)]
        mu = setting.epsilon / math.sqrt(2 * math.log(1.25 / setting.delta))
        enough = 3 * setting.records * mu**2 / (setting.dimension * rules.steps)
        share = max(enough, rules.amplified * mu / math.sqrt(rules.steps))
        share = min(max(share, rules.smallest_share), LARGEST_SHARE)
        batch = min(setting.records, max(SMALLEST_BATCH, round(share * setting.records)))
        return Plan(batch, len(self.asked) + rules.steps, GradientClip(1.0), "poisson")

    def known_residual(self, setting: Setting) -> float:
        """Its length at the point where rows are measured."""
        if setting.model == "softmax":
            return FEATURES_RESIDUAL if self.chosen_recipe == "features" else math.sqrt(1 - 1 / self.outputs)
        return min(self.probe, setting.largest_residual) if self.probe else UNKNOWN

    def recorded(self) -> dict[str, Any]:
        return {"rules": self.rules}

    def own_numbers(self, recipe: Recipe) -> Recipe:
        """The recipe, with what a study says in place of it."""
        given = {name: getattr(self, name) for name in ("clip_factor", "momentum", "score_noise")}
        return replace(recipe, **{name: value for name, value in given.items() if value is not None})

    def questions(self) -> dict[str, int]:
        kinds = [question_of(kind) for kind in self.asked]
        return dict.fromkeys((*kinds, "framed gradient" if self.viewed else "gradient"), 1)

    def begin(self, plan: Plan, theta: Floats, noise: float, randomness: Randomness) -> None:
        super().begin(plan, theta, noise, randomness)
        zero = np.zeros(1)
        self.state |= self.fresh(theta) | {
            "clip": zero, "step": zero, "distance": zero, "drift": zero, "square": zero,
            "origin": theta.copy(), "momentum": np.zeros_like(theta),
            "moved": np.zeros_like(theta), "gain": zero, "doubt": zero,
        }  # fmt: skip

    def ask(self, round_index: int) -> Ask:
        if round_index < len(self.asked):
            return self.prepare(round_index)
        point, scale = self.state["inner"], 1 / self.number("clip")
        if not self.viewed:
            return Ask((point,), "gradient", scale)
        return Ask((*self.frame(float(self.state["scale"][-1])), point), "framed gradient", scale)

    def advance(self, round_index: int, estimate: Floats) -> None:
        if round_index >= len(self.asked):
            self.descend(round_index - len(self.asked), estimate)
            return
        self.take(round_index, estimate)
        if round_index == len(self.asked) - 1:
            self.start()

    def start(self) -> None:
        """Everything is known: the clip, and the way that noise alone would be allowed."""
        noise, steps = self.number("noise"), self.own.steps
        if self.viewed:
            self.fix_intercept()
        self.state["inner"] = self.inward(self.theta)
        if self.viewed and self.chosen_recipe == "tables" and not self.theta.any():
            self.state["inner"] = self.at(self.state["constant"] / self.state["scale"][-1])
            self.theta = self.outward(self.state["inner"])
        self.state["origin"] = self.state["inner"]
        self.keep("clip", self.own.clip_factor * self.number("median"))
        self.keep("length", self.number("median") / self.residual)
        clip = self.number("clip")
        if self.chosen_recipe == "tables":
            self.start_tables()
        elif self.chosen_recipe == "features":
            row = self.number("length")
            self.keep("step", mean_step_of_features(row, clip, noise, steps, self.own.score_noise))
        else:
            self.keep("step", mean_step_of_network(self.theta, clip, noise, steps))

    def fix_intercept(self) -> None:
        """How long the constant 1 is beside the features, and the median gradient with it."""
        length, unit = self.number("median") / self.residual, self.number("unit")
        if self.chosen_recipe == "tables":
            features = max(length**2, SMALLEST_ROW**2)
            intercept = min(unit, math.sqrt(features) / self.own.intercept_share)
        else:
            features = max(length**2 - 1, 0.05)  # it was 1 in the histogram
            intercept = math.sqrt(features) / self.own.intercept_share
        self.state["scale"] = np.append(self.state["scale"][:-1], intercept)
        self.keep("median", self.residual * math.sqrt(features + intercept**2))

    def start_tables(self) -> None:
        """A clip that grows as noise falls, and a distance: the step follows from it as the run goes on."""
        dimension, length = len(self.theta), self.number("length")
        # What a residual is at the start, now that it is known for numbers, too; and what noise may move a score by.
        residual = DEVIATION * self.number("spread") if self.probe else self.residual
        unit = residual if self.probe else math.log2(max(2, self.outputs)) ** CLASS_REACH
        # Of the mean of all gradients of the run, in units of the clip.
        whole = self.number("noise") * math.sqrt(dimension / self.own.steps)
        growth = min(max((REFERENCE_NOISE / max(whole, 1e-12)) ** CLIP_GROWTH, 0.7), 2.5)
        self.keep("clip", self.own.clip_factor * growth * residual * length)
        # Noise of norm c·r moves the score of a row |x| by c·r·|x|/sqrt(d).
        wide = self.model in LINEAR and self.columns > NARROW and not self.viewed
        allowed = self.own.score_noise * unit * (WIDE if wide else 1.0)
        self.keep("distance", allowed * math.sqrt(dimension) / (self.step_factor * length))

    def curvature(self) -> float:
        """A bound of the loss's second derivative in a score, times that of a row's squared length."""
        derivative = {"logistic": 0.25, "softmax": min(0.5, CLASS_CURVATURE / self.outputs)}.get(self.model, 1.0)
        return derivative * self.number("length") ** 2

    def descend(self, step_index: int, estimate: Floats) -> None:
        """One step of heavy ball on the coordinates of the view."""
        clip, beta = self.number("clip"), self.own.momentum
        gradient = estimate * clip + self.pulled(self.regulariser.gradient(self.theta))
        self.state["momentum"] = beta * self.state["momentum"] + (1 - beta) * gradient
        if self.chosen_recipe == "tables":
            weight = max(1 / (step_index + 1), MEMORY)
            self.keep("square", (1 - weight) * self.number("square") + weight * inner(gradient, gradient))
        step = self.step(clip) * 2 * (1 - step_index / self.own.steps)
        before, moved = self.state["moved"], -step * self.state["momentum"]
        self.state["inner"], self.state["moved"] = self.state["inner"] + moved, moved
        self.weigh(gradient, (before + moved) / 2, step * (1 - beta) / 2)
        if self.chosen_recipe == "tables":
            self.measure(step, clip)
        self.theta = self.outward(self.state["inner"])

    def weigh(self, gradient: Floats, way: Floats, own: float) -> None:
        """What the features' part of the model has changed the loss by: the trapezoidal rule along the path.

        `way` is half of the moves before and after this gradient, whose own noise is in the latter `own` times.
        """
        way, noise = self.of_features(way), self.number("noise") * self.number("clip")
        known = own * noise**2 * (len(way) - self.outputs * self.viewed)
        self.keep("gain", self.number("gain") + inner(gradient, way) + known)
        self.keep("doubt", self.number("doubt") + noise**2 * inner(way, way))

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
        wanted, steps, beta = self.step_factor * self.number("distance"), self.own.steps, self.own.momentum
        if self.model not in LINEAR:
            return wanted / max(math.sqrt(self.number("square") * steps), 1e-300)
        noise = self.number("noise") * clip * math.sqrt(len(self.theta) * steps)
        stable = STABLE * (1 + beta) / ((1 - beta) * self.curvature())
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

    @property
    def learned(self) -> bool:
        """Unless looking at features seems to have raised the loss; before they have moved, too."""
        doubt = math.sqrt(self.number("doubt"))
        return not doubt or self.number("gain") < HARM * doubt

    @property
    def remark(self) -> str:
        return "" if self._kept_features else NOT_LEARNED

    @property
    def _kept_features(self) -> bool:
        return self.learned or not (self.viewed and self.chosen_recipe == "tables")

    def of_features(self, inner: Floats) -> Floats:
        """What a model has beside its intercept."""
        if not self.viewed:
            return inner
        return np.append(inner[: -self.outputs], np.zeros(self.outputs))

    def result(self) -> Floats:
        """The start, where noise says that nothing better was found; its intercept fits a model without features."""
        return super().result() if self._kept_features else self.outward(self.state["origin"])
