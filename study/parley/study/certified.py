"""Noise for a simulated run whose (ε, δ) already holds what the servers' finite sampler costs.

As a manifest's (parley.study.manifests): the smallest noise at which the claim, the certificate's terms in it, is the
wanted (ε, δ). A simulation samples the servers' law from the preset that was certified, so the claim is of the run that
it makes.
"""

from parley.algorithms.algorithm import Plan
from parley.federation.manifest import longest_answer
from parley.federation.meaning import finite_precision, servers_for
from parley.mpc.errors import MpcError
from parley.mpc.parts import JOINT, NoiseParts
from parley.mpc.tables import Precision
from parley.privacy.accountants import accountant
from parley.privacy.claim import Claim
from parley.privacy.errors import InvalidParameterError
from parley.privacy.finite_precision import FinitePrecision
from parley.privacy.mechanism import Unit
from parley.study.errors import RunFileError
from parley.study.manifests import Claiming, quietest
from parley.study.simulation import Calibrated, calibrate, mechanism_of

PRESETS: tuple[Precision, ...] = ("standard", "high")


def calibrate_certified(
    plan: Plan,
    sizes: dict[str, int],
    dimension: int,
    epsilon: float,
    delta: float,
    name: str,
    unit: Unit,
    parts: NoiseParts = JOINT,
) -> Calibrated:
    """As `calibrate`, for (ε, δ) with the sampler's terms inside; a run that is not private has no claim."""
    if not plan.private:
        return calibrate(plan, sizes, epsilon, delta, name, unit)
    answer = longest_answer(dimension)
    samples = answer * mechanism_of(plan, sizes, delta, 1.0, unit).releases * parts.samples
    preset, terms = cheapest(samples, epsilon, delta)
    mechanism = quietest(plan, sizes, unit, epsilon, delta, Claiming(accountant(name), terms))
    servers = servers_for(parts, "strips", preset)
    claim = Claim.of(mechanism, answer, delta, accountant(name), terms, servers)
    return Calibrated(mechanism, claim.epsilon, delta, name, preset, claim)


def cheapest(samples: int, epsilon: float, delta: float) -> tuple[Precision, FinitePrecision]:
    """The first preset that takes at most a hundredth of ε and of δ, and its terms; refused where none does."""
    for preset in PRESETS:
        try:
            return preset, finite_precision(samples, epsilon, delta, "strips", preset)
        except (MpcError, InvalidParameterError):
            continue
    raise RunFileError(
        f"no preset of the noise keeps {samples:,} samples within 1 % of epsilon {epsilon:g} and delta {delta:g}: "
        "use fewer rounds, fewer parameters, or a larger epsilon"
    )
