"""Questions by which a coordinator would make one record empty its party's answer, or count for more than is declared.

Two data sets that differ in one record answer one question; `measured` is how far the answers lie apart, over what the
mechanism declares and its noise protects. An answer that cannot be computed is zeros, as it leaves a party.
"""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.attacks.kinds import Attack, Finding, Guard, removed
from parley.attacks.surroundings import Surroundings, manifest, question
from parley.federation.question import LocalFit, answer_length
from parley.learning.contributor import Contributor, Encoding, Query
from parley.learning.engine import Here
from parley.learning.frame import BITS, LARGEST
from parley.learning.local import MARGIN, constants
from parley.learning.models import Linear, Logistic, Model
from parley.learning.perceptron import Perceptron
from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.mpc.tables import FORMATS
from parley.party.run import contribution
from parley.privacy.clipping import GradientClip
from parley.privacy.errors import InvalidParameterError
from parley.privacy.mechanism import Cohort, Mechanism
from parley.privacy.sampling import FixedSize, Poisson, Sampler
from parley.study.simulation import SeededRandomness
from parley.v1 import coordinator_pb2

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def _product(kept: NDArray[np.bool_], whole: Floats) -> Floats:
    return whole * kept[:, None, None]


FRAMES = Guard("frames-cut", "parley.learning.frame:largest_entry", lambda columns: int(LARGEST * 2**BITS))
REACH = Guard("reach-covers-schema", "parley.learning.contributor:require_reach", lambda records, local: None)
FAILING = Guard("failing-record-is-zero", "parley.learning.perceptron:_only", _product)
RANGE = Guard("numbers-in-range", "parley.privacy.sampling:SMALLEST", 0.0)
EXACT = Guard(
    "steps-counted-exactly", "parley.mpc.ring:Lattice.steps_within", lambda self, length: round(length / self.step)
)
KINDS = Guard("kinds-by-algorithm", "parley.party.questions:asks", lambda *_: True)
LEAVING = Guard("left-after-a-failure", "parley.party.run:Life._answer_no_more", lambda self: None)


def _encoding(mechanism: Mechanism, model: Model) -> Encoding:
    return Encoding.of(mechanism, FORMATS["standard"].scale_bits, model.largest_limit)


def _party(mechanism: Mechanism, model: Model, encoding: Encoding, records: Records) -> Contributor:
    """The same batch for every data set: only the records differ."""
    return Contributor("a", records, model, encoding, SeededRandomness("attack", 0))


def _apart(first: Contributor, second: Contributor, query: Query) -> float:
    """Over the declared sensitivity; a QueryError where the question is refused, as it then is whatever is held."""
    for party in (first, second):
        party.check(query)
    length = answer_length(query.kind, len(query.points), first.model.dimension)
    answers = [contribution(party, query, length) for party in (first, second)]
    one, other = (np.zeros(length, np.int64) if each is None else each for each in answers)
    return float(np.linalg.norm((one - other).astype(np.float64))) / float(_declared(first.encoding))


def _declared(encoding: Encoding) -> Fraction:
    """In lattice steps, of which a deviation of the noise has 2^bits."""
    return Fraction(1 << encoding.fraction_bits) / Fraction(encoding.mechanism.noise_multiplier)


def _finding(measured: float) -> Finding:
    return Finding("bounded" if measured <= 1 else "succeeds", 1.0, measured)


def _mechanism(sampler: Sampler, norm: float, noise: float, steps: int) -> Mechanism:
    return Mechanism((Cohort("a", sampler),), GradientClip(norm), noise, steps)


# ---------------------------------------------------------------- one record empties an answer


def long_framed_row(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """C3a: one in sixteen people is drawn, but a frame is made of everybody's rows."""
    count, columns = 400, 300
    mechanism = _mechanism(Poisson.with_overflow(count, count // 16, 216, 1e-9), 1.0, 2.0, 216)
    model = Linear(columns, Logistic())
    encoding = _encoding(mechanism, model)
    values = np.zeros((count, columns), np.int64)
    values[:, 280:] = np.random.default_rng(1).integers(0, 2, (count, 20))
    marked = values.copy()
    marked[0, :260] = 1
    scale = np.where(np.arange(columns) < 260, LARGEST, 1.0)
    query = Query(0, (np.zeros(columns), scale), "means")
    pair = [
        _party(mechanism, model, encoding, Records(DenseRows.of(rows, 0), np.zeros(count))) for rows in (values, marked)
    ]
    return _finding(_apart(pair[0], pair[1], query))


def saturated_record(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """C3c: θ is chosen so that exactly who has column 0 gets a residual of zero, and a weight beyond float32."""
    count, columns = 200, 8
    model = Perceptron(columns, (4,), Logistic())
    mechanism = _mechanism(FixedSize(count, count), 3e-24, 4.0, 50)
    encoding = _encoding(mechanism, model)
    values = np.random.default_rng(1).integers(0, 200, (count, columns))
    values[:, 0] = 0
    marked = values.copy()
    marked[0, 0] = 200
    weights = np.zeros((columns, 4))
    weights[0, 0], weights[1:, 1] = 4096.0, 0.01
    theta = np.concatenate([weights.ravel(), np.zeros(4), [-4096.0, 1e-3, 0.0, 0.0], [0.0]])
    pair = [
        _party(mechanism, model, encoding, Records(DenseRows.of(rows, 8), np.zeros(count))) for rows in (values, marked)
    ]
    return _finding(_apart(pair[0], pair[1], Query(0, (theta,), "gradient", 2.0**40)))


# ---------------------------------------------------------------- one record counts for more


def short_reach(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """C3b, over the wire: a fit for rows of a twentieth of the schema's length, and a mechanism that pays for those."""
    reach = 0.1
    lipschitz, smoothness = constants(Linear(3, Logistic()), reach)
    fit = LocalFit("descent", 1, 1 / smoothness, 0.0, reach)
    norm = 3 * lipschitz * fit.step * (1 + 2 * MARGIN) / 2
    made = manifest(40, "output-perturbation", norm, 10.0, 1)
    local = coordinator_pb2.LocalFit(**dataclasses.asdict(fit))
    totals: list[Integers] = []
    for place, victim in enumerate(("90,220,1", "90,220,0")):
        # Everybody else comes in pairs whose gradients cancel at the start.
        records = [f"{20 + age},{30 + age},{sick}" for age in range(19) for sick in (0, 1)] + ["55,125,1", victim]
        with Surroundings(folder / str(place), made, records) as around:
            total = around.ask(question(made, 0, (np.zeros(3),), "solution", local))
            if total is None:
                return Finding("refused", 1.0, around.coordinator.refusal)
            totals.append(total)
    step = made.lattice(0).step
    moved = float(np.linalg.norm((totals[0] - totals[1]) * step))
    return _finding(moved / made.mechanism.sensitivity(0))


def tiny_norm(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """H1: a clip norm of a few thousand of the smallest numbers there are, whose lattice step is one of them."""
    count = 4
    model = Linear(2, Logistic())
    values, labels = np.array([[0, 256]] * count), np.zeros(count)
    labels[0] = 1.0
    theta = np.array([0.0, 2.0])
    worst = 0.0
    for size in range(2_000, 12_000, 250):
        try:
            mechanism = _mechanism(FixedSize(count, count), size * 5e-324, 4.0, 5)
        except InvalidParameterError as error:
            return Finding("refused", 1.0, str(error))
        encoding = Encoding(mechanism, 12, FORMATS["standard"].scale_bits)
        pair = [
            _party(mechanism, model, encoding, Records(DenseRows.of(rows, 8), labels)) for rows in (values, -values)
        ]
        worst = max(worst, _apart(pair[0], pair[1], Query(0, (np.zeros(2), theta), "losses", 1.0)))
    return _finding(worst)


def rounded_limit(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """Low: a multiplier at which the bound is a last digit short of a whole number of steps."""
    count, bits = 2, 16
    model = Linear(1, Logistic())
    worst = Fraction(0)
    for steps in range(1_000, 1_400):
        mechanism = _mechanism(FixedSize(count, count), 0.1 + steps / 7e5, (1 << bits) / (2 * steps), 5)
        encoding = Encoding(mechanism, bits, FORMATS["standard"].scale_bits)
        party = _party(mechanism, model, encoding, Records(DenseRows.of(np.ones((count, 1)), 0), np.zeros(count)))
        bound, step = Fraction(mechanism.clip.contribution_bound(0)), Fraction(encoding.lattice(0).step)
        worst = max(worst, encoding.scale(party.party, 0).limit * step / bound)
    return Finding("bounded" if worst <= 1 else "succeeds", 1.0, f"1 + {float(worst - 1):.3g}")


# ---------------------------------------------------------------- what a policy and a failure stand for


def another_algorithms_question(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """Under a policy of one algorithm, a question that only another one asks."""
    reach = 2.0
    made = manifest(40, "dp-gd", 3 * reach * (4 / reach**2) * (1 + 2 * MARGIN) / 2, 10.0, 1)
    fit = coordinator_pb2.LocalFit(method="descent", steps=1, step=4 / reach**2, strength=0.0, reach=reach)
    with Surroundings(folder, made, _people(40)) as around:
        total = around.ask(question(made, 0, (np.zeros(3),), "solution", fit))
        if total is None:
            return Finding("refused", "no answer", around.coordinator.refusal)
        return Finding("succeeds", "no answer", "a fitted model's sum")


def a_failure_in_every_round(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """A defect that nobody knows, by which a record makes the arithmetic fail: in how many rounds it can be used."""
    made = manifest(40, "dp-gd", 1.0, 20.0, 4)
    honest = Here.gradients

    def fails(self: Here, *arguments: Any) -> Integers:
        if self.records.rows.norms.squared.max() > 3 * 4**self.records.rows.bits * 0.999:
            raise MemoryError
        return honest(self, *arguments)

    defect = Guard("a defect", "parley.learning.engine:Here.gradients", fails)
    shown = 0
    with removed(defect), Surroundings(folder, made, [*_people(39), "90,220,1"]) as around:
        for index in range(3):
            total = around.ask(question(made, index, (np.zeros(3),), "gradient"))
            if total is None:
                break
            shown += not total.any()
            around.left()
    return Finding("bounded" if shown <= 1 else "succeeds", 1, shown)


def _people(count: int) -> Sequence[str]:
    return [f"{25 + number},{60 + number},{number % 2}" for number in range(count)]


GUARDS = (FRAMES, REACH, FAILING, RANGE, EXACT, KINDS, LEAVING)
ATTACKS = (
    Attack(
        "C3a",
        "A coordinator frames rows so that one with many entries is too long to count, to empty its party's answer.",
        (FRAMES.name,),
        long_framed_row,
    ),
    Attack(
        "C3b",
        "A coordinator asks for a fitted model of shorter rows than the schema admits, so that a longer one tells.",
        (REACH.name,),
        short_reach,
    ),
    Attack(
        "C3c",
        "A coordinator makes one record's gradient exactly zero and its weight infinite, to empty its party's answer.",
        (FAILING.name,),
        saturated_record,
    ),
    Attack(
        "H1",
        "A coordinator plans with a clip norm so small that its lattice's steps are rounded, to count records by more.",
        (RANGE.name,),
        tiny_norm,
    ),
    Attack(
        "rounding",
        "A coordinator picks noise at which a rounded quotient lets a record span a step more than is accounted.",
        (EXACT.name,),
        rounded_limit,
    ),
    Attack(
        "other-kinds",
        "A coordinator asks, under an algorithm that a party's policy names, what only another algorithm asks.",
        (KINDS.name,),
        another_algorithms_question,
    ),
    Attack(
        "failing-again",
        "A coordinator that knows of a defect by which a record makes an answer fail uses it in every round.",
        (LEAVING.name,),
        a_failure_in_every_round,
    ),
)
