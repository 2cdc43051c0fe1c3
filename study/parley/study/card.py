"""The card of a simulated model: what holds of the one fit that it is, against whom, and what all fits cost.

Nothing that was computed from private records without noise is in it: no figure over seeds, none without privacy, none
on records that were held out.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.metrics import Figure, as_json
from parley.learning.model_archive import FORMAT, with_digests
from parley.learning.transforms import declared
from parley.models.extractor_spec import with_code_digests
from parley.models.module_spec import module_in_card
from parley.privacy.mechanism import Mechanism
from parley.study.fit_costs import Total
from parley.study.open_records import PRIVATE

if TYPE_CHECKING:
    from parley.study.study import Study

Floats = NDArray[np.float64]
DISTRIBUTION = "parley-federation"
REPEATABLE = "Repeatable: the noise follows from a seed that anybody can try, so this model protects nobody."


@dataclass(frozen=True)
class Fit:
    """One seed's model, and what is public about it."""

    theta: Floats
    rounds: int
    mechanism: Mechanism
    epsilon: float | None
    """None: it protects nobody"""
    accountant: str
    parties: Mapping[str, int]
    figures: Mapping[str, Figure] | None
    """Of this model on a PUBLIC set."""
    tested: int | None = None
    """Records in that set."""
    records: str = PRIVATE
    """Whose they are: private, public or made up."""
    chosen: int | None = None
    """The round whose model it is, where the public set chose it."""
    start: Mapping[str, Any] | None = None
    """What the card says of the model file that it started from."""


def described(study: "Study", theta: Floats) -> dict[str, Any]:
    """What a model file says that the model is."""
    schema = {name: value for name, value in with_code_digests(study.schema).as_json().items() if value is not None}
    return {"format": FORMAT, "model": study.model_table(), "schema": schema}


def card_of(study: "Study", fit: Fit, repeatable: bool, total: Total) -> dict[str, Any]:
    """Finished, with its digests."""
    private = fit.epsilon is not None
    values = None if fit.figures is None else {name: figure.value for name, figure in fit.figures.items()}
    description = described(study, fit.theta)
    card = {
        "format": FORMAT,
        "simulation": True,
        "run": study.run,
        "federation": study.federation,
        "manifest_digest": None,
        "statement": statement_of(study, fit, repeatable) + (among(total) if private else ""),
        "epsilon": fit.epsilon,
        "delta": study.delta if private else None,
        "security": None,
        "own": None,
        "audit": None,
        "epsilon_if_a_server_lies": None,
        "accountant": fit.accountant,
        "unit": fit.mechanism.unit.name,
        "relation": fit.mechanism.relation.value,
        "records": fit.records,
        "parties": dict(fit.parties),
        "aggregators": [],
        "coordinator": None,
        "module": module_in_card(description["model"]),
        "algorithm": study.algorithm["name"],
        "rounds": fit.rounds,
        "rounds_planned": fit.mechanism.releases,
        "stop_early": study.stop_early.as_json() if study.stop_early else None,
        "chosen_round": fit.chosen + 1 if fit.chosen is not None else None,
        "start": dict(fit.start) if fit.start is not None else None,
        "fits": total.fits if private else None,
        "epsilon_of_all_fits": total.epsilon if private else None,
        "delta_of_all_fits": total.delta if private else None,
        "evaluation": values,
        "quality": None if fit.figures is None else as_json(fit.figures),
        "public_records": fit.tested,
        "declared": list(declared(study.schema.transform)) or None,
        "software": {"name": DISTRIBUTION, "version": version(DISTRIBUTION)},
        "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    return with_digests(card, fit.theta, description)


def statement_of(study: "Study", fit: Fit, repeatable: bool) -> str:
    """The guarantee in a sentence, or that there is none."""
    if fit.records != PRIVATE:
        return f"Trained on {fit.records.replace(' ', '-')} records: it cost nobody's privacy, and protects nobody's."
    if repeatable:
        return REPEATABLE
    if fit.epsilon is None:
        return "No guarantee was computed for this training, so this model protects nobody."
    return central_statement(fit.mechanism, fit.epsilon, study.delta, fit.accountant)


def among(total: Total) -> str:
    """What holds of a model that may have been chosen because of what others looked like."""
    if total.fits < 2:
        return ""
    return (
        f" {total.fits} fits were shown where it was trained; all together, and so any that was chosen among them, "
        f"are ({total.epsilon:.4g}, {total.delta:.3g})-differentially private."
    )


def central_statement(mechanism: Mechanism, epsilon: float, delta: float, accountant: str) -> str:
    """Of a model that one process trained: what it says to everybody but whoever ran that."""
    return (
        f"Central model: whoever ran the training saw the records. Towards everybody else this one model is "
        f"({epsilon:.4g}, {delta:.3g})-differentially private for each {mechanism.unit.name} under "
        f"{mechanism.relation.value}, by noise of {mechanism.noise_multiplier:.4g} times the sensitivity in each of "
        f"{mechanism.releases:,} rounds, accountant {accountant}. Other fits of the same records cost more."
    )
