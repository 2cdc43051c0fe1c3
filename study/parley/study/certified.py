"""Noise for a simulated run whose (ε, δ) already holds what the servers' finite sampler costs.

As a manifest's (parley.study.manifests): the smallest noise at which the claim, the certificate's terms in it, is the
wanted (ε, δ). A simulation samples the servers' law from the preset that was certified, so the claim is of the run that
it makes.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from parley.algorithms.algorithm import Plan
from parley.federation.manifest import longest_answer
from parley.federation.meaning import servers_for
from parley.mpc.parts import JOINT, NoiseParts
from parley.mpc.tables import Cover, Precision
from parley.privacy.accountants import accountant
from parley.privacy.claim import Claim
from parley.privacy.mechanism import Unit
from parley.study.batch_runs import plan_for
from parley.study.manifests import first_within, least_noise
from parley.study.simulation import Calibrated, calibrate

if TYPE_CHECKING:
    from parley.study.study import Study


def calibrate_certified(
    plan: Plan,
    sizes: dict[str, int],
    dimension: int,
    epsilon: float,
    delta: float,
    name: str,
    unit: Unit,
    parts: NoiseParts = JOINT,
    cover: Cover = "strips",
    precision: Precision | None = None,
) -> Calibrated:
    """As `calibrate`, for (ε, δ) with the sampler's terms inside; a run that is not private has no claim."""
    if not plan.private:
        return calibrate(plan, sizes, epsilon, delta, name, unit, parts)
    mechanism, preset, terms = least_noise(plan, sizes, unit, epsilon, delta, name, dimension, parts, cover, precision)
    servers = servers_for(parts, cover, preset)
    claim = Claim.of(mechanism, longest_answer(dimension), delta, accountant(name), terms, servers)
    return Calibrated(mechanism, claim.epsilon, delta, name, preset, claim, parts)


def calibrated_for(study: "Study", sizes: Mapping[str, int]) -> Calibrated:
    """A study's, with parties of these sizes."""
    counted = dict(sizes)
    plan, dimension = plan_for(study, sum(counted.values())), study.new_model().dimension

    def tried(parts: NoiseParts) -> tuple[Calibrated, float | None]:
        found = calibrate_certified(
            plan,
            counted,
            dimension,
            study.epsilon,
            study.delta,
            study.accountant,
            Unit(study.schema.unit),
            parts,
            study.cover,
            study.precision,
        )
        return found, found.claim.epsilon_if_a_server_lies if found.claim else None

    if study.worst_epsilon is None or not plan.private:
        return tried(study.parts)[0]
    return first_within(study.worst_epsilon, study.parts, tried)
