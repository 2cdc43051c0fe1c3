"""One institution's fit, where one machine sees all records: a federation of one party, in one process.

The party's code, the mechanism, the law of the noise and its certificate are a federation's; there are no servers, so
the noise has no parts of theirs. Batches and noise come from a fresh key that nobody keeps. Towards whoever sees the
model and not the records it is (ε, δ)-differentially private; whoever fits sees everything.
"""

import datetime as dt
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np

from parley.algorithms.algorithm import Algorithm, Plan
from parley.algorithms.registry import build_algorithm, setting_of
from parley.algorithms.regularisers import Regulariser
from parley.learning.model_archive import FORMAT
from parley.learning.models import Model
from parley.learning.records import Records
from parley.learning.registry import build_model
from parley.learning.schema import Schema
from parley.mpc.parts import JOINT
from parley.privacy.claim import Claim
from parley.privacy.mechanism import Unit
from parley.study.certified import calibrate_certified
from parley.study.errors import StudyError
from parley.study.model_file import LoadedModel
from parley.study.simulation import Calibrated, Federation, Floats
from parley.study.spending import NOTHING, SPENDING, Total

SITE = "site"
"""The one party's name."""
ACCOUNTANT = "pld"
USUAL_DELTA = 1e-5
DISTRIBUTION = "parley-federation"


@dataclass(frozen=True)
class Prepared:
    """What is known before a record is used: plan, noise and claim follow from public facts alone."""

    algorithm: Algorithm
    model: Model
    plan: Plan
    calibrated: Calibrated
    claim: Claim

    def train(self, records: Records) -> Floats:
        """θ. What `claim` says is to be charged before; an algorithm steps once, so this is called once."""
        federation = Federation(
            self.algorithm,
            self.plan,
            self.model,
            {SITE: records},
            self.calibrated.mechanism,
            secrets.randbits(256),
            precision=self.calibrated.precision,
            parts=JOINT,
        )
        return federation.run().theta

    def released(self, theta: Floats, schema: Schema, model: dict[str, Any]) -> LoadedModel:
        """With a federation's fields on its card; there is no manifest, no server and no coordinator."""
        description = {
            "format": FORMAT,
            "model": {**model, "dimension": self.model.dimension},
            "schema": {name: value for name, value in schema.as_json().items() if value is not None},
        }
        mechanism = self.claim.mechanism
        card: dict[str, Any] = {
            "format": FORMAT,
            "run": "central",
            "federation": "one site",
            "manifest_digest": None,
            "statement": sentence(self.claim),
            "epsilon": self.claim.epsilon,
            "delta": self.claim.delta,
            "security": None,
            "own": None,
            "epsilon_if_a_server_lies": None,
            "accountant": ACCOUNTANT,
            "unit": mechanism.unit.name,
            "relation": mechanism.relation.value,
            "parties": {SITE: mechanism.sampler(SITE, 0).units},
            "aggregators": [],
            "coordinator": None,
            "algorithm": self.algorithm.name,
            "rounds": self.plan.releases,
            "rounds_planned": self.plan.releases,
            "evaluation": None,
            "software": {"name": DISTRIBUTION, "version": version(DISTRIBUTION)},
            "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        }
        return LoadedModel(np.ascontiguousarray(theta), description, card)


def prepare(
    schema: Schema, model: dict[str, Any], algorithm: dict[str, Any], epsilon: float, delta: float, units: int
) -> Prepared:
    """`model` and `algorithm` are a study's tables; `units` is how many there are, which is public."""
    built, stepping = build_model(model, schema), build_algorithm(algorithm, Regulariser())
    plan = stepping.plan(setting_of(units, built, epsilon, delta, schema, str(model["kind"])))
    calibrated = _calibrated(plan, units, built.dimension, epsilon, delta, schema.unit)
    if calibrated.claim is None:
        raise StudyError(f"{algorithm['name']} is not private: choose an algorithm that is")
    return Prepared(stepping, built, plan, calibrated, calibrated.claim)


@lru_cache(maxsize=1024)
def _calibrated(plan: Plan, units: int, dimension: int, epsilon: float, delta: float, unit: str | None) -> Calibrated:
    """A third of a second, so once for all fits of equal public facts."""
    return calibrate_certified(plan, {SITE: units}, dimension, epsilon, delta, ACCOUNTANT, Unit(unit), JOINT)


def usual_delta(units: int) -> float:
    """1e-5, and a tenth of 1/n for more than 10,000 records: a function of their number, which is public."""
    return min(USUAL_DELTA, 0.1 / units)


def sentence(claim: Claim) -> str:
    """The guarantee in words."""
    column = claim.mechanism.unit.column
    return (
        f"Central, one site: if any one {'record' if column is None else column} had been another, no outcome of this "
        f"fit would have become more than {math.exp(min(claim.epsilon, 700.0)):.4g} times as likely or as unlikely "
        f"(epsilon {claim.epsilon:.4g}), except with probability {claim.delta:.3g} (delta). It holds against whoever "
        "sees the model and not the records; the person who fits sees everything."
    )


class Privacy:
    """What one fit cost, and all fits of these records in this process."""

    def __init__(self, claim: Claim, records: tuple[bytes, ...]) -> None:
        self.epsilon, self.delta, self.sentence = claim.epsilon, claim.delta, sentence(claim)
        self._records: tuple[bytes, ...] = records
        """Digests under this process's key: of no use elsewhere, so a copy has the total of its moment."""
        self._then = NOTHING

    @property
    def total(self) -> Total:
        """Of the record that is most exposed, over all fits that it was in."""
        return SPENDING.worst(self._records) if self._records else self._then

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_records": (), "_then": self.total}

    def __str__(self) -> str:
        total = self.total
        more = (
            f" All {total.fits} fits of these records in this process together: epsilon {total.epsilon:.4g} at delta "
            f"{total.delta:.3g}."
            if total.fits > 1
            else ""
        )
        return self.sentence + more

    __repr__ = __str__


def card_of(card: Mapping[str, Any], privacy: Privacy) -> dict[str, Any]:
    """With what all fits of these records cost so far."""
    total = privacy.total
    return {**card, "fits": {"count": total.fits, "epsilon": total.epsilon, "delta": total.delta}}
