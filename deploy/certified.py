"""Noise for a simulated run whose (ε, δ) already holds what the servers' finite sampler costs. Imports everything.

The certificate (mpc/law.py) says what the sampler adds for all of the run's samples; the noise is calibrated for what
is left of ε and δ, and the claim (privacy/claim.py) is read back from the mechanism. A simulation samples the servers'
law from the preset that was certified, so the claim is of the run that it makes.
"""

import contextlib
import math
from dataclasses import replace

from coordinator.algorithm import Plan
from deploy.errors import RunFileError
from deploy.simulation import Calibrated, calibrate, mechanism_of
from mpc.law import Certificate, NotCertifiableError, certify
from mpc.tables import Precision
from party.contributor import BUCKETS, MOST_CANDIDATES
from privacy.accountants import accountant
from privacy.claim import Claim, FinitePrecision
from privacy.mechanism import Unit

PRESETS: tuple[Precision, ...] = ("standard", "high")
ROOM = 1.01
"""The claim weighs δ″ at the ε that 99 % of δ gives, a little above the target."""
NUDGE = 1 + 1e-3
NUDGES = 20


def calibrate_certified(
    plan: Plan, sizes: dict[str, int], dimension: int, epsilon: float, delta: float, name: str, unit: Unit
) -> Calibrated:
    """As `calibrate`, for (ε, δ) with the sampler's terms inside; a run that is not private has no claim."""
    if not plan.private:
        return calibrate(plan, sizes, epsilon, delta, name, unit)
    # Every answer of a run has at most so many numbers.
    answer = max(dimension, BUCKETS, MOST_CANDIDATES)
    samples = answer * mechanism_of(plan, sizes, delta, 1.0, unit).releases
    found = cheapest(samples, epsilon, delta)
    terms = FinitePrecision.from_certificate(samples, epsilon, delta, found.epsilon_added, found.delta_added)
    left = (delta - terms.delta_total(ROOM * epsilon, 0.0)) / math.exp(terms.xi)
    chosen = calibrate(plan, sizes, epsilon - terms.epsilon_added, left, name, unit)
    mechanism = chosen.mechanism
    for _ in range(NUDGES):
        claim = Claim.of(mechanism, dimension, delta, accountant(name), terms)
        if claim.epsilon <= epsilon:
            return Calibrated(mechanism, claim.epsilon, delta, name, found.precision, claim)
        mechanism = replace(mechanism, noise_multiplier=mechanism.noise_multiplier * NUDGE)
    raise RunFileError(f"no noise was found whose certified claim is within epsilon {epsilon}: this is a defect")


def cheapest(samples: int, epsilon: float, delta: float) -> Certificate:
    """Of the first preset that takes at most a hundredth of ε and of δ; refused where none does."""
    for preset in PRESETS:
        with contextlib.suppress(NotCertifiableError):
            found = certify(samples, epsilon, delta, "strips", preset)
            if found.within():
                return found
    raise RunFileError(
        f"no preset of the noise keeps {samples:,} samples within 1 % of epsilon {epsilon:g} and delta {delta:g}: "
        "use fewer rounds, fewer parameters, or a larger epsilon"
    )
