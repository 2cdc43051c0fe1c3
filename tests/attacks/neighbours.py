"""A search for two neighbouring data sets whose answers lie further apart than a run declares, or of which one fails.

A question is drawn at random, with a mechanism and records that differ in one unit: half of the questions are wild (any
number that passes `Contributor.check`), half aim at the bound (units whose terms are opposite and cut by the clip). Of
one question's data sets each two are neighbours, so that a few answers try many pairs. Draws are the same for all, and
distances that come near the bound are counted in Python's integers, in lattice steps: over 2·bound/step as declared,
and over 2^bits/multiplier, which is what the noise of the servers protects.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from parley.federation.question import LocalFit
from parley.learning.contributor import FRAMED, Contributor, Encoding, Query
from parley.learning.errors import PartyError
from parley.learning.local import MARGIN, constants
from parley.learning.models import Huber, Linear, Logistic, Model, Residual, Softmax, Squared
from parley.learning.perceptron import Perceptron
from parley.learning.proximal import SmoothedHinge
from parley.learning.records import Records
from parley.learning.rows import DenseRows, Rows, SparseRows
from parley.mpc.errors import MpcError
from parley.mpc.tables import FORMATS
from parley.privacy.clipping import Clip, GradientClip, MomentumClip
from parley.privacy.errors import PrivacyError
from parley.privacy.mechanism import Cohort, Mechanism, Unit
from parley.privacy.sampling import FixedSize, Poisson
from parley.study.simulation import SeededRandomness

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CLASSES = 3
COMMON, CHANGED = 3, 4
"""Units that all data sets of a question have, and data sets: one unit more each."""
PAIRS = CHANGED * (CHANGED - 1) // 2
ATTEMPTS = 20
"""At a question that is not refused."""
RESIDUALS: dict[str, Residual] = {
    "logistic": Logistic(),
    "softmax": Softmax(CLASSES),
    "linear": Squared(),
    "huber": Huber(2.0),
    "smoothed hinge": SmoothedHinge(8.0, 2.0),
}
PERCEPTRONS = ("perceptron", "deep perceptron")
PLAIN = ("gradient", "two points", "losses", "norms")
IN_A_FRAME = ("framed gradient", "framed two points", "framed norms", "means", "absolute means", "square means")
FITS = (("huber", "permuted-sgd"), ("huber", "descent"), ("logistic", "permuted-sgd"), ("logistic", "descent"))
EXTREMES = [0.0, 5e-324, 1e-320, 1e-30, 1e-9, 1.0, 1e9, 1e154, 1e308, -1e308, -1.0]
NORMS = [1.0, 1.0, 1e-3, 1e-23, 1e-24, 1e11, 1e-300, 2.8e-312, 3e-316]
"""About; the last three are refused unless that guard is gone."""
TOPS = {"linear": 1e3, "perceptron": 1e3, "deep perceptron": 1e5}
"""Of histograms, about the norms that `_aimed` makes."""
SCALES = [1.0, 1e3, 0.1, 2.0**-40, 2.0**40, 2.0**40, 2.0**40, 2.0**40]
GAMMAS = [1e-17, 0.01, 0.5, 1 - 2.0**-53, 1.0]


@dataclass(frozen=True)
class Target:
    """What one kind of question and one model can come to."""

    kind: str
    model: str
    units: bool
    """Whether units of several records are protected, not rows."""

    @property
    def name(self) -> str:
        return f"{self.kind} of {self.model} by {'unit' if self.units else 'row'}"

    @property
    def attainable(self) -> float:
        """The largest distance there is, over the declared one: less than 1 where the bound is not tight."""
        if "norms" in self.kind or self.kind in ("absolute means", "square means"):
            return math.sqrt(0.5)  # terms without negative entries are at most orthogonal
        if not self.kind.startswith("solution"):
            return 1.0
        # A logistic residual is one half where a fit begins. Lemma 2 has 3·L·T·η where 2·L·T·η can be reached.
        tight = 1.0 if self.model == "huber" else 0.5
        return tight * (2 / 3 if self.kind.endswith("descent") else 1.0)


TARGETS = (
    *(Target(kind, model, units) for kind in PLAIN for model in (*RESIDUALS, *PERCEPTRONS) for units in (False, True)),
    *(Target(kind, model, units) for kind in IN_A_FRAME for model in RESIDUALS for units in (False, True)),
    *(Target(f"solution by {method}", model, False) for model, method in FITS),
)


@dataclass
class Search:
    """What was tried and found."""

    seed: int
    tried: int = 0
    """Pairs of neighbours."""
    largest: Fraction = Fraction(0)
    """Distance over the declared sensitivity, exact wherever it comes near 1."""
    at: str = "nowhere"
    failures: Counter[str] = field(default_factory=Counter)
    """Exceptions of a contribution, whichever record brought them about."""
    refused: Counter[str] = field(default_factory=Counter)
    reached: dict[Target, float] = field(default_factory=lambda: dict.fromkeys(TARGETS, 0.0))
    """Of what is attainable."""

    @property
    def broken(self) -> bool:
        return bool(self.failures) or self.largest > 1

    def __str__(self) -> str:
        worst = min(self.reached, key=lambda target: self.reached[target])
        return (
            f"seed {self.seed}: {self.tried:,} pairs of neighbours, largest ratio {float(self.largest)!r} at "
            f"{self.at}, "
            f"least reached {self.reached[worst]:.3f} at {worst.name}, failures {dict(self.failures)}, "
            f"{sum(self.refused.values()):,} questions refused"
        )


@dataclass(frozen=True)
class Question:
    """One question, and units of which a data set has the first `COMMON` and one of the others."""

    target: Target
    model: Model
    mechanism: Mechanism
    query: Query
    values: Integers
    """int64[units, columns]"""
    labels: Floats
    bits: int
    sparse: bool
    row_bound: float = math.inf

    def records(self, changed: int) -> Records:
        chosen = np.array([*range(COMMON), COMMON + changed])
        values, labels = self.values[chosen], self.labels[chosen]
        if not self.target.units:
            return Records(self.rows(values), labels, row_bound=self.row_bound)
        # Two records each, of which the second unit lacks one.
        count = len(chosen)
        members = np.stack([np.arange(count), np.arange(count) + count], axis=1)
        members[1, 1] = -1
        doubled = np.concatenate([values, values])
        return Records(self.rows(doubled), np.concatenate([labels, labels]), "unit", members)

    def rows(self, values: Integers) -> Rows:
        if not self.sparse:
            return DenseRows.of(values, self.bits)
        columns = np.tile(np.arange(values.shape[1]), (len(values), 1))
        return SparseRows.of(columns, values, self.bits, values.shape[1])


def search(tries: int, seed: int, until_broken: bool = False) -> Search:
    """Try at least so many pairs of neighbours, every target in turn."""
    rng, found = np.random.default_rng(seed), Search(seed)
    for number, target in enumerate(itertools.cycle(TARGETS)):
        if found.tried >= tries or (until_broken and found.broken):
            return found
        aimed = bool((number // len(TARGETS)) % 2)
        for _ in range(ATTEMPTS):
            try:
                question = _question(rng, target, aimed)
                encoding = _encoding(rng, question, coarse=0.05 if aimed else 0.2)
                _party(question, encoding, 0).check(question.query)
            except (PartyError, PrivacyError, MpcError, ZeroDivisionError) as error:
                found.refused[type(error).__name__] += 1
                continue
            _try(found, question, encoding)
            break
    raise AssertionError  # the targets never end


def _try(found: Search, question: Question, encoding: Encoding) -> None:
    """All data sets of a question, and the distances between their answers."""
    answers = []
    for changed in range(CHANGED):
        try:
            answers.append(_party(question, encoding, changed).contribution(question.query))
        except Exception as error:  # whatever it is, a record must not have brought it about
            found.failures[f"{type(error).__name__} at {question.target.name}"] += 1
            return
    found.tried += PAIRS
    index, mechanism = question.query.round_index, question.mechanism
    declared = min(
        Fraction(mechanism.sensitivity(index)) / Fraction(encoding.lattice(index).step),
        Fraction(1 << encoding.fraction_bits) / Fraction(mechanism.noise_multiplier),
    )
    for ratio in _ratios(answers, declared):
        if ratio > found.largest:
            found.largest, found.at = ratio, question.target.name
        reached = float(ratio) / question.target.attainable
        found.reached[question.target] = max(found.reached[question.target], reached)


def _ratios(answers: list[Integers], declared: Fraction) -> Iterator[Fraction]:
    """Of the two answers that lie furthest apart, and of all that lie about as far as they may: exactly."""
    whole = np.stack(answers).astype(np.float64)
    far = np.square(whole[:, None] - whole[None]).sum(axis=2)
    near = far >= min(float(far.max()), (float(declared) * (1 - 2.0**-30)) ** 2)
    for one, other in np.argwhere(np.triu(near, 1)):
        squared = sum(int(each) ** 2 for each in answers[one].astype(object) - answers[other].astype(object))
        # The root's denominator: far finer than two numbers of lattice steps can differ by.
        root = Fraction(math.isqrt(squared << 128), 1 << 64)
        # Rounded down, so that a ratio above 1 is one; and one that only its remainder lifts above is seen as well.
        if root <= declared < root + Fraction(1, 1 << 64) and squared > declared**2:
            root += Fraction(1, 1 << 64)
        yield root / declared


def _encoding(rng: np.random.Generator, question: Question, coarse: float) -> Encoding:
    """The finest lattice of the run, or a coarser one, as a manifest may ask for."""
    encoding = Encoding.of(question.mechanism, FORMATS["high"].scale_bits, question.model.largest_limit)
    if rng.random() < coarse:
        encoding = replace(encoding, fraction_bits=int(rng.integers(1, encoding.fraction_bits + 1)))
    return encoding


def _party(question: Question, encoding: Encoding, changed: int) -> Contributor:
    randomness = SeededRandomness("neighbours", 0)  # the same order for every data set
    return Contributor("a", question.records(changed), question.model, encoding, randomness)


# ---------------------------------------------------------------- questions


def _question(rng: np.random.Generator, target: Target, aimed: bool) -> Question:
    if target.kind.startswith("solution"):
        return _fit(rng, target, aimed)
    columns = int(rng.choice([3, 8, 300], p=[0.45, 0.35, 0.2] if target.kind in IN_A_FRAME else [0.5, 0.45, 0.05]))
    model = _model(target.model, columns)
    two = "two points" in target.kind
    clip = _clip(rng, two, aimed)
    unit = Unit("unit" if target.units else None)
    noise = float(rng.choice([0.3, 0.5, 0.7, 1.2, 2.0, 50.0]))
    everyone = COMMON + 1
    # Some wild questions draw: the same units from all data sets, of which some are computed and left out.
    drawn = Poisson(everyone, 2, everyone) if not aimed and rng.random() < 0.1 else FixedSize(everyone, everyone)
    mechanism = Mechanism((Cohort("a", drawn),), clip, noise, 3, unit)
    index = 1 if two or rng.random() < 0.5 else 0
    if isinstance(clip, MomentumClip) and not two and clip.gamma < 1:
        index = 0
    sparse = bool(rng.random() < 0.2) and target.model not in PERCEPTRONS
    draw = _aimed if aimed else _wild
    kind = {"two points": "gradient", "framed two points": "framed gradient"}.get(target.kind, target.kind)
    points, scale, values, labels, bits = draw(rng, target, model, columns)
    return Question(target, model, mechanism, Query(index, points, kind, scale), values, labels, bits, sparse)


def _model(name: str, columns: int) -> Model:
    if name == "perceptron":
        return Perceptron(columns, (4,), Softmax(CLASSES))
    if name == "deep perceptron":
        return Perceptron(columns, (4, 3), Logistic(), "tanh")
    return Linear(columns, RESIDUALS[name])


def _clip(rng: np.random.Generator, two: bool, aimed: bool) -> Clip:
    size = float(rng.choice(NORMS))
    if aimed and size > 1:
        size = 1.0  # no scale that is admitted lets terms come near it
    if not aimed and rng.random() < 0.75:
        size = float(rng.choice([1e-23, 1e-24]))  # over which float32 ends
    if not two and rng.random() < 0.7:
        return GradientClip(size * float(rng.uniform(0.1, 10)))
    gammas = GAMMAS[:-1] if two else GAMMAS
    gamma = float(rng.choice(gammas)) if rng.random() < 0.8 else float(rng.uniform(0.01, 0.99))
    return MomentumClip(size * float(rng.uniform(0.1, 10)), size * float(rng.uniform(0.01, 10)), gamma)


Drawn = tuple[tuple[Floats, ...], float, Integers, Floats, int]
"""Points, scale, features, labels, fraction bits of the features."""


def _wild(rng: np.random.Generator, target: Target, model: Model, columns: int) -> Drawn:
    """Whatever passes."""
    bits = int(rng.choice([0, 8, 10, 16]))
    top = int(rng.choice([1, 1 << bits, (200 if bits < 12 else 1) << bits]))
    values = rng.integers(-top, top + 1, (COMMON + CHANGED, columns))
    values *= rng.random(values.shape) < rng.choice([0.05, 0.5, 1.0], (len(values), 1))
    values[COMMON] = 0
    values[COMMON + 1] = rng.choice([top, -top])
    if target.model in ("linear", "huber"):
        labels = rng.choice(EXTREMES, len(values))
    else:
        labels = rng.integers(0, CLASSES if _classes(target) else 2, len(values)).astype(np.float64)
    framed = 2 if target.kind in FRAMED or "framed" in target.kind else 0
    own = {"losses": int(rng.integers(2, 6))}.get(target.kind, 2 if "two points" in target.kind else 1)
    points = [_point(rng, model.dimension) for _ in range(framed + (0 if "means" in target.kind else own))]
    if framed:
        points[1] = np.maximum(np.abs(points[1]), rng.choice([5e-324, 1e-9, 1.0, 1e9]))
    if "two points" in target.kind and rng.random() < 0.5:
        points[-1] = points[-2] + rng.normal(0, 1e-6, model.dimension)
    if isinstance(model, Perceptron) and rng.random() < 0.85:
        # Whoever has the right label has a residual of exactly zero.
        points = [_weights(model, float(rng.choice([-1e6, 1e6])), target, most=1e4) for _ in points]
        points[-1] = points[-1] + rng.normal(0, 1e-3, model.dimension)
        return tuple(points), 2.0**40, values, labels, bits
    return tuple(points), float(rng.choice(SCALES)), values, labels, bits


def _point(rng: np.random.Generator, dimension: int) -> Floats:
    point = rng.normal(0, rng.choice([1e-3, 1.0, 30.0, 1e4]), dimension)
    wild = rng.random(dimension) < rng.choice([0.0, 0.2, 1.0])
    return np.where(wild, rng.choice(EXTREMES, dimension), point)


def _classes(target: Target) -> bool:
    return target.model in ("softmax", "perceptron")


def _aimed(rng: np.random.Generator, target: Target, model: Model, columns: int) -> Drawn:
    """Units that differ in sign, so that their terms are opposite, under a scale by which the clip cuts all of them.

    Column 0 is small and the only one with a weight: scores are alike for all units, or opposite for loss differences.
    """
    # A perceptron's biases see a constant 1, beside which its features have to be large.
    bits = 2 if isinstance(model, Perceptron) else 8
    row = rng.integers(100, 256, columns) * rng.choice([-1, 1], columns)
    row[0] = 1 if "losses" not in target.kind else 100
    signs = np.where(np.arange(COMMON + CHANGED) % 2, 1, -1)
    values = signs[:, None] * row
    if target.kind in ("gradient", "two points", "framed gradient", "framed two points"):
        values[:, 0] = 1
    if "norms" in target.kind:
        values = np.stack([row >> int(shift) for shift in np.arange(COMMON + CHANGED)])
    if target.kind in ("absolute means", "square means"):
        values = np.where((np.arange(columns) % 2 == 0) == (signs > 0)[:, None], row, 0)
    labels = np.zeros(len(values))
    if target.model in ("linear", "huber"):
        labels += -2.0 if "two points" in target.kind else 1e3
    if target.kind == "losses" and isinstance(model, Perceptron):
        labels = (signs > 0).astype(np.float64)
    weight = float(rng.uniform(0.5, 2.0)) * (256 if target.kind != "losses" else 2)
    first, second = _weights(model, -weight, target), _weights(model, weight, target)
    if _classes(target):
        first, second = second, first  # a residual is large where the score of its own class is not
    points = {"losses": (_weights(model, 0.0, target), second), "norms": (second,), "gradient": (second,)}
    # A residual and its difference have one sign.
    chosen = (second, first) if "two points" in target.kind else points.get(target.kind.removeprefix("framed "), ())
    if target.kind in IN_A_FRAME:
        chosen = (np.zeros(model.dimension), np.ones(model.dimension), *chosen)
    scale = 1e6 if "norms" not in target.kind else TOPS.get(target.model, 10.0)
    return chosen, scale, values, labels, bits


def _weights(model: Model, weight: float, target: Target, most: float = 2.0) -> Floats:
    if isinstance(model, Linear):
        whole = np.zeros((model.features, model.residual.outputs))
        whole[0, 0] = weight
        if model.residual.outputs > 2:
            whole[0, 2] = -1e5  # two classes are left, whose residuals have one direction
        return whole.ravel()
    assert isinstance(model, Perceptron)
    parts = []
    for place, (width, outputs) in enumerate(model.shapes):
        last = place == len(model.shapes) - 1
        bias = np.full(outputs, 0.0 if last else 1e-3)
        if last:
            bias[0] = math.copysign(min(abs(weight) / 256, most), weight)
            bias[2:] = -60.0
        parts += [np.zeros(width * outputs) if place == 0 else np.full((width, outputs), 3.0).ravel(), bias]
    # Unequal weights of the outputs: equal ones would cancel in what is carried back.
    last_width, last_outputs = model.shapes[-1]
    parts[-2] = np.tile(np.where(np.arange(last_outputs) == 0, 5.0, -5.0), last_width)
    return np.concatenate(parts)


def _fit(rng: np.random.Generator, target: Target, aimed: bool) -> Question:
    """Of all records, once, under the clip norm that its sensitivity asks for."""
    columns, bits = int(rng.choice([3, 8])), 8
    residual = Logistic() if target.model == "logistic" else Huber(float(rng.choice([0.5, 2.0])))
    model, count = Linear(columns, residual), COMMON + 1
    if aimed:
        row = np.full(columns, 256)
        values = np.zeros((COMMON + CHANGED, columns), np.int64)
        values[COMMON:] = row
    else:
        values = rng.integers(-256, 257, (COMMON + CHANGED, columns))
    labels = np.asarray(np.arange(len(values)) % 2.0, np.float64)
    if target.model == "huber":
        labels = 2e6 * labels - 1e6 if aimed else np.asarray(rng.choice(EXTREMES, len(values)))
    bound = math.sqrt(columns)
    reach = bound * (1.0 if aimed else float(rng.choice([0.01, 0.3, 1.0, 2.0])))
    lipschitz, smoothness = constants(model, reach)
    method = target.kind.removeprefix("solution by ")
    steps = 1 if aimed else int(rng.integers(1, 6))
    strength = float(rng.choice([0.0, 0.1])) if method == "descent" and not aimed else 0.0
    local = LocalFit(method, steps, 1 / (smoothness + 2 * strength), strength, reach)
    norm = count * local.sensitivity(lipschitz, smoothness, count) / 2 * (1 + 2 * MARGIN)
    sampler = FixedSize(count, count)
    mechanism = Mechanism((Cohort("a", sampler),), GradientClip(norm), float(rng.choice([0.5, 2.0])), 1)
    query = Query(0, (np.zeros(columns),), "solution", 1.0, local)
    return Question(target, model, mechanism, query, values, labels, bits, False, bound)
