"""The claim: what the finite sampler costs, what is refused, and what the sentence says."""

import math

import pytest

from parley.privacy.accountants import accountant
from parley.privacy.claim import Claim
from parley.privacy.clipping import MomentumClip
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import NeighbouringRelation
from parley.privacy.filters import Policy, charge_of, recounted
from parley.privacy.finite_precision import EXACT, FinitePrecision
from parley.privacy.mechanism import Cohort, Mechanism, Unit
from parley.privacy.paper_accountant import PaperAccountant
from parley.privacy.sampling import FixedSize, Poisson

PLD = accountant("pld")
DELTA = 1e-5
PRECISION = FinitePrecision(samples=100 * 21, xi=1e-4, hop_delta=1e-9, tail_delta=1e-10)


def test_the_claim_adds_the_samplers_terms_and_keeps_the_total_delta(mechanism: Mechanism) -> None:
    claim = Claim.of(mechanism, 100, DELTA, PLD, PRECISION)
    assert claim.epsilon == claim.gaussian.epsilon + 2e-4
    assert claim.gaussian.delta < DELTA == claim.delta
    assert PRECISION.delta_total(claim.gaussian.epsilon, claim.gaussian.delta) <= DELTA
    by_hand = math.exp(1e-4) * claim.gaussian.delta + 1e-9 + math.exp(claim.gaussian.epsilon + 1e-4) * 1e-10
    assert PRECISION.delta_total(claim.gaussian.epsilon, claim.gaussian.delta) == pytest.approx(by_hand)
    assert claim.epsilon > Claim.of(mechanism, 100, DELTA, PLD, EXACT).epsilon


def test_the_worst_party_is_the_claim(mechanism: Mechanism) -> None:
    claim = Claim.of(mechanism, 100, DELTA, PLD, EXACT)
    assert claim.party == "south"
    assert claim.epsilon == PLD.epsilon(mechanism.event("south"), DELTA).epsilon


@pytest.mark.parametrize(
    ("precision", "message"),
    [
        (FinitePrecision(2100, 0.01, 0.0, 0.0), "of epsilon|to epsilon"),
        (FinitePrecision(2100, 0.0, 2e-7, 0.0), "of delta"),
        (FinitePrecision(2100, 0.0, 0.0, 2e-7), "of delta"),
        (FinitePrecision(2099, 0.0, 0.0, 0.0), "covers 2099 samples"),
    ],
)
def test_a_sampler_that_takes_more_than_one_percent_or_covers_too_little_is_refused(
    mechanism: Mechanism, precision: FinitePrecision, message: str
) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        Claim.of(mechanism, 100, DELTA, PLD, precision)
    if precision.epsilon_added == 0:  # of the run's epsilon the share is asked for where the run's claim is made
        with pytest.raises(InvalidParameterError, match=message):
            charge_of(mechanism, "south", 100, DELTA, PLD, precision, Policy("rdp", 16))


def test_a_party_that_the_runs_noise_protects_far_better_pays_its_own_charge() -> None:
    """The sampler's terms are below a hundredth of the run's claim, and above one of what the large party pays."""
    cohorts = (Cohort("large", FixedSize(10_000, 10)), Cohort("small", FixedSize(5, 1)))
    run = Mechanism(cohorts, MomentumClip(1, 0.1, 0.5), 4.0, 20, Unit())
    terms = FinitePrecision(100 * 21, 4e-3, 1e-9, 1e-10)
    assert Claim.of(run, 100, DELTA, PLD, terms).party == "small"
    charge = charge_of(run, "large", 100, DELTA, PLD, terms, Policy())
    assert charge.cost.epsilon >= PLD.epsilon(run.event("large"), DELTA).epsilon + terms.epsilon_added
    assert terms.epsilon_added > 0.01 * charge.cost.epsilon
    assert recounted(charge, Policy()).epsilon == charge.cost.epsilon


def test_the_sentence_names_everything_that_the_guarantee_rests_on() -> None:
    run = Mechanism((Cohort("a", Poisson(1000, 50, 120)),), MomentumClip(1, 0.1, 0.5), 4.0, 20, Unit("patient"))
    sentence = Claim.of(run, 100, DELTA, PLD, PRECISION).sentence
    for part in (
        "Computational, against any coalition of the coordinator, all other parties and one aggregator that follows",
        "1e-05",
        "(patient, institution)",
        "replace-one",
        "coin flips",
        "padded to 120",
        "accountant pld",
        "0.0002 of epsilon",
        "Only the two aggregators together could break it",
        "no guarantee if a server lies",
    ):
        assert part in sentence
    assert "\n" not in sentence


def test_what_is_no_guarantee_cannot_be_claimed(mechanism: Mechanism) -> None:
    for chosen in (accountant("lower"), PaperAccountant(ignore_conditions=True)):
        with pytest.raises(InvalidParameterError, match="no guarantee"):
            Claim.of(mechanism, 100, DELTA, chosen, EXACT)
    sampler = Poisson(1000, 50, 1000)
    compared = Mechanism(
        (Cohort("a", sampler),), MomentumClip(1, 0.1, 0.5), 4.0, 20, relation=NeighbouringRelation.ADD_OR_REMOVE
    )
    with pytest.raises(InvalidParameterError, match="replace-one"):
        Claim.of(compared, 100, DELTA, PLD, EXACT)


@pytest.mark.parametrize(("hop", "tail"), [(1e-9, 1e-10), (0.0, 1e-9), (1e-9, 0.0)])
def test_terms_read_off_a_certificate_bound_the_true_ones_at_every_epsilon(hop: float, tail: float) -> None:
    truth = FinitePrecision(1000, 1e-4, hop, tail)
    stated = truth.delta_total(0.7, DELTA) - DELTA
    read = FinitePrecision.from_certificate(1000, 0.7, DELTA, truth.epsilon_added, stated)
    assert read.xi == truth.xi
    for epsilon in (0.0, 0.2, 0.7, 3.0, 10.0):
        assert read.delta_total(epsilon, DELTA) >= truth.delta_total(epsilon, DELTA) * (1 - 1e-12)
    assert read.delta_total(0.7, DELTA) - DELTA <= 2 * stated


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
def test_a_certificate_with_nonsense_in_it_is_refused(value: float) -> None:
    with pytest.raises(InvalidParameterError, match="xi"):
        FinitePrecision(1, value, 0.0, 0.0)
    with pytest.raises(InvalidParameterError, match="hop delta"):
        FinitePrecision(1, 0.0, value, 0.0)
    with pytest.raises(InvalidParameterError, match="tail delta"):
        FinitePrecision(1, 0.0, 0.0, value)


def test_a_claim_serialises_with_its_sentence(mechanism: Mechanism) -> None:
    body = Claim.of(mechanism, 100, DELTA, PLD, PRECISION).as_json()
    assert body["mechanism"] == mechanism.digest
    assert body["finite_precision"]["samples"] == 2100
    assert body["statement"].startswith("Computational")


def test_fixed_size_sentences_name_the_rate_of_the_worst_party() -> None:
    run = Mechanism((Cohort("a", FixedSize(1000, 50)),), MomentumClip(1, 0.1, 0.5), 4.0, 20)
    assert "without replacement (rate 0.05)" in Claim.of(run, 1, DELTA, PLD, EXACT).sentence
