"""`Study.simulate`: the study trained as the federation would, several times, with what privacy costs beside it."""

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.columns import Target
from parley.learning.metrics import Figure, metrics, outputs
from parley.learning.models import Linear, Logistic, Residual, Softmax, Squared
from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.study.batch_runs import (
    Prepared,
    Spread,
    federation_of,
    guarantee,
    prepare,
    qualities,
    require_backend,
    spreading,
)
from parley.study.card import Fit
from parley.study.data import Sets, sets_of
from parley.study.errors import StudyError
from parley.study.examples import examples_of
from parley.study.fit_costs import SPENDING
from parley.study.open_records import PRIVATE
from parley.study.pace import Pace, Say
from parley.study.plan import of_calibrated
from parley.study.result import Curve, Result
from parley.study.simulation import Federation, SeededRandomness
from parley.study.start_and_stop import start_of
from parley.study.surroundings import BoundsWarning, warn

if TYPE_CHECKING:
    from parley.study.study import Study

Floats = NDArray[np.float64]
KEY_BITS = 256
POINTS = 60
"""Of a curve, at most."""


@dataclass(frozen=True)
class Played:
    """One run: what a script reads of it, its model, its figures on the test set, and perhaps its curve."""

    row: Mapping[str, Any]
    theta: Floats
    figures: Mapping[str, Figure]
    curve: tuple[tuple[int, float], ...] = ()
    chosen: int | None = None
    """The round whose model it is, where the run may stop early."""


def simulate(
    study: "Study",
    data: Any,
    *,
    test: Any,
    seeds: int,
    repeatable: bool,
    workers: int,
    public: bool = False,
    backend: str = "local",
    progress: Say | None = None,
) -> Result:
    """`Study.simulate`."""
    require_counts(seeds, workers)
    require_backend(backend)
    study.new_algorithm()  # a central method has another door, and says which
    sets = drawn_sets(study, data, test, repeatable, public)
    if progress:
        progress("planning the rounds and calibrating their noise")
    prepared = prepare(study, sets, certified=True)
    if claimed(prepared, repeatable):  # before the first run, whatever becomes of it
        for _ in range(seeds):
            SPENDING.charge(sets.rows, prepared.calibrated.epsilon, study.delta)
    with spreading(backend, workers) as spread:
        return result_of(prepared, seeds, repeatable, spread, progress)


def require_counts(seeds: int, workers: int) -> None:
    """Whole numbers of at least 1."""
    if any(isinstance(each, bool) or not isinstance(each, int) or each < 1 for each in (seeds, workers)):
        raise StudyError("seeds and workers are whole numbers of at least 1: give such")


def drawn_sets(study: "Study", data: Any, test: Any, repeatable: bool, public: bool) -> Sets:
    """With a test set, held out by a fresh key where none is given."""
    drawn = SeededRandomness("hold-out", 0 if repeatable else secrets.randbits(KEY_BITS))
    sets = sets_of(study, data, test, drawn, public)
    for said in sets.warnings:
        warn(f"{said}. This sentence tells of the records: it is for you alone", BoundsWarning)
    return sets


def claimed(prepared: Prepared, repeatable: bool) -> bool:
    """Whether a fit has a guarantee, and so a price: none where anybody knows the noise, or the records."""
    return prepared.calibrated.claim is not None and not repeatable and prepared.sets.kind == PRIVATE


def result_of(prepared: Prepared, seeds: int, repeatable: bool, spread: Spread, progress: Say | None = None) -> Result:
    """Played; what it costs has been charged."""
    study, sets, calibrated = prepared.study, prepared.sets, prepared.calibrated
    keys = [number if repeatable else secrets.randbits(KEY_BITS) for number in range(seeds)]
    names = [f"fit {number + 1} of {seeds}" for number in range(seeds)]
    wanted = [Wanted(key, name, watched=key == keys[0]) for key, name in zip(keys, names, strict=True)]
    plainly = Wanted(keys[0], "the fit without privacy", watched=True, noise=False)
    *private, plain = spread(partial(_played, prepared, progress), [*wanted, plainly])
    first, start = private[0], start_of(study)
    fit = Fit(
        theta=first.theta,
        rounds=first.row["rounds"],
        mechanism=prepared.mechanism,
        epsilon=calibrated.epsilon if claimed(prepared, repeatable) else None,
        accountant=calibrated.accountant,
        parties=sets.sizes(),
        figures=first.figures if sets.may_decide else None,
        tested=len(sets.test.rows) if sets.test and sets.may_decide else None,
        records=sets.kind,
        chosen=first.chosen,
        start=start.as_json() if start is not None else None,
    )
    assert sets.test is not None
    return Result(
        study=study,
        plan=of_calibrated(study, calibrated),
        fit=fit,
        runs=tuple({**each.row, "seed": number} for number, each in enumerate(private)),
        figures=tuple({name: figure.value for name, figure in each.figures.items()} for each in private),
        without_privacy={name: figure.value for name, figure in plain.figures.items()},
        constant=constant(sets, study.schema.target),
        curve=Curve(measure(study.schema.target), first.curve, plain.curve),
        tested=len(sets.test.rows),
        public_test=sets.public,
        repeatable=repeatable,
        records=sets.rows,
        examples=examples_of(study, sets, first.theta),
    )


@dataclass(frozen=True)
class Wanted:
    """A run to be played."""

    key: int
    name: str
    watched: bool
    """Whether its curve is wanted."""
    noise: bool = True


def _played(prepared: Prepared, progress: Say | None, wanted: Wanted) -> Played:
    prepared = replace(prepared, noise=wanted.noise)
    study, test = prepared.study, prepared.sets.test
    assert test is not None
    federation = federation_of(prepared, wanted.key)
    points: list[tuple[int, float]] = []
    releases = federation.mechanism.releases
    every = max(1, math.ceil(releases / POINTS))
    pace = Pace(progress, wanted.name, releases) if progress else None

    def watch(made: int, _: Floats) -> None:
        if pace:
            pace(made)
        if wanted.watched and (made % every == 0 or made == releases):
            points.append((made, _measured(federation, test, study.schema.target)))

    outcome = federation.run(watch)
    row = {
        **guarantee(prepared, federation.plan.private),
        "rounds": outcome.releases,
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        **qualities(study, prepared.sets, outcome.theta),
        **({"remark": remark} if (remark := federation.algorithm.remark) else {}),
    }
    figures = metrics(study.new_model(), test, outcome.theta, study.schema.target)
    chosen = federation.early.chosen if federation.early else None
    return Played(row, outcome.theta, figures, tuple(points), chosen)


def measure(target: Target) -> str:
    """What a curve shows."""
    return "RMSE" if target.kind == "number" else "loss"


def _measured(federation: Federation, test: Records, target: Target) -> float:
    losses, scores = outputs(federation.model, test, federation.algorithm.result())
    if target.kind == "number":
        return float(np.sqrt(np.mean((scores[:, 0] - test.targets) ** 2)) * target.spread)
    return float(losses.mean())


def constant(sets: Sets, target: Target) -> dict[str, float]:
    """The figures of the best constant answer: what anybody would guess who knows how common each answer is.

    A model of one column that is always 1, so that every figure is computed as the model's own.
    """
    assert sets.test is not None
    answers = np.concatenate([records.targets for records in sets.own.values()])
    theta, residual = _guess(answers, target)
    ones = DenseRows.of(np.ones((len(sets.test.rows), 1), np.int64), 0)
    found = metrics(Linear(1, residual), Records(ones, sets.test.targets), theta, target)
    return {name: figure.value for name, figure in found.items()}


def _guess(answers: Floats, target: Target) -> tuple[Floats, Residual]:
    if target.kind == "number":
        return np.array([answers.mean()]), Squared()
    if target.kind == "classes":
        counts = np.bincount(answers.astype(np.int64), minlength=len(target.classes)) + 0.5
        return np.log(counts / counts.sum()), Softmax(len(target.classes))
    rate = (answers.sum() + 0.5) / (len(answers) + 1)
    return np.array([math.log(rate / (1 - rate))]), Logistic()
