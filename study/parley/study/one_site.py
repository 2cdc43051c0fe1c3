"""One institution's fit, where one machine sees all records: a study with one party, played once in one process.

Plan, mechanism, the party's code, the law of the noise and its certificate are those of `Study.simulate`; as there are
no servers, the noise has no parts of theirs. Batches and noise come from a fresh key that nobody keeps. Towards
whoever sees the model and not the records it is (ε, δ)-differentially private; whoever fits sees everything.
"""

import math
import secrets
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from parley.algorithms.algorithm import Plan
from parley.learning.records import Records
from parley.mpc.errors import MpcError
from parley.mpc.parts import JOINT
from parley.privacy.errors import InvalidParameterError
from parley.privacy.mechanism import Unit
from parley.study.batch_runs import Prepared, federation_of, plan_for
from parley.study.card import Fit, card_of, described, statement_of
from parley.study.certified import calibrate_certified
from parley.study.data import Sets
from parley.study.errors import StudyError
from parley.study.fit_costs import SPENDING, Past, Total
from parley.study.model_file import LoadedModel
from parley.study.opened import code_of
from parley.study.simulation import Calibrated
from parley.study.study import Study

SITE = "site"
"""The one party's name."""
USUAL_DELTA = 1e-5
KEY_BITS = 256


def prepare(study: Study, records: Records) -> Prepared:
    """Plan, noise and claim, from public facts alone: of the records, how many units there are."""
    plan = plan_for(study, records.units)
    if not plan.private:
        raise StudyError(f"{study.algorithm['name']} is not private: choose an algorithm that is")
    public = study.new_model().dimension, study.epsilon, study.delta, study.accountant, study.schema.unit
    try:
        calibrated = _calibrated(plan, records.units, *public)
    except (MpcError, InvalidParameterError) as error:
        raise StudyError(
            f"no certified noise reaches epsilon {study.epsilon:g} at delta {study.delta:g} in {plan.releases} rounds: "
            f"use an epsilon from 0.01 to 10, a larger delta or fewer rounds ({error})"
        ) from None
    return Prepared(study, Sets({SITE: records}), calibrated)


@lru_cache(maxsize=1024)
def _calibrated(
    plan: Plan, units: int, dimension: int, epsilon: float, delta: float, accountant: str, unit: str | None
) -> Calibrated:
    """A third of a second, so once for all fits of equal public facts."""
    return calibrate_certified(plan, {SITE: units}, dimension, epsilon, delta, accountant, Unit(unit), JOINT)


def usual_delta(units: int) -> float:
    """1e-5, and a tenth of 1/n for more than 10,000 units: a function of their number, which is public."""
    return min(USUAL_DELTA, 0.1 / units)


def play(prepared: Prepared) -> Fit:
    """One run under a key that is thrown away. Charge its claim before."""
    outcome = federation_of(prepared, secrets.randbits(KEY_BITS)).run()
    return Fit(
        theta=np.ascontiguousarray(outcome.theta),
        rounds=outcome.releases,
        mechanism=prepared.mechanism,
        epsilon=prepared.calibrated.epsilon,
        accountant=prepared.calibrated.accountant,
        parties=prepared.sets.sizes(),
        figures=None,
    )


@dataclass(frozen=True)
class Fitted:
    """What a fit released, and nothing else."""

    study: Study
    fit: Fit
    model: LoadedModel
    """Without a card: a card counts the fits until the moment at which it is asked for."""
    past: Past = field(default_factory=dict)

    @classmethod
    def of(cls, study: Study, fit: Fit) -> "Fitted":
        """From a run."""
        return cls(study, fit, LoadedModel(fit.theta, described(study, fit.theta), {}, code_of(study)))

    def with_card(self) -> LoadedModel:
        """Counting all fits of this process: how many of them shared a record would tell of records."""
        card = card_of(self.study, self.fit, False, SPENDING.with_past(self.past))
        return LoadedModel(self.fit.theta, self.model.description, card, self.model.allow)

    def __getstate__(self) -> dict[str, Any]:
        # Elsewhere a card must not say that nothing was fitted.
        return {**vars(self), "past": SPENDING.past(self.past)}


class Privacy:
    """What one fit cost, and all fits of these records in this process."""

    def __init__(self, study: Study, fit: Fit, records: tuple[bytes, ...]) -> None:
        self.epsilon = math.inf if fit.epsilon is None else fit.epsilon
        self.delta, self.sentence = study.delta, statement_of(study, fit, False)
        self._records: tuple[bytes, ...] | None = records
        """Digests under this process's key, of no use elsewhere."""
        self._past: Past = {}

    @property
    def total(self) -> Total:
        """Of the record that is most exposed, over all fits that it was in; a copy's is of all of its processes'."""
        return SPENDING.with_past(self._past) if self._records is None else SPENDING.worst(self._records)

    def __getstate__(self) -> dict[str, Any]:
        # A copy may leave this machine, and how many fits shared a record would tell of records.
        return {**vars(self), "_records": None, "_past": SPENDING.past(self._past)}

    def __str__(self) -> str:
        total = self.total
        together = (
            f" {total.fits} fits of these records in this process cost epsilon {total.epsilon:.4g} at delta "
            f"{total.delta:.3g} together."
        )
        return self.sentence + (together if total.fits > 1 else "")

    __repr__ = __str__
