"""What holds if a server lies: the accountant's own figure for the other one's part alone, or nothing."""

import math
from dataclasses import dataclass

import pytest

from parley.privacy.accountants import accountant
from parley.privacy.calibration import smallest_noise
from parley.privacy.claim import Claim
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event, SampledGaussian
from parley.privacy.filters import Charge, Cost, Policy, charge_of
from parley.privacy.finite_precision import EXACT, FinitePrecision
from parley.privacy.lying import FOLLOWING, NO_GUARANTEE, Servers, added, in_words
from parley.privacy.mechanism import Mechanism
from parley.privacy.sampling import FixedSize

PLD = accountant("pld")
DELTA = 1e-5


@dataclass(frozen=True)
class Exactly:
    """A certificate that takes what it is told to, up to an ε."""

    xi: float = 0.0
    most: float = math.inf

    def __call__(self, samples: int, epsilon: float, delta: float) -> FinitePrecision:
        if epsilon > self.most:
            raise InvalidParameterError("not precise enough")
        return FinitePrecision(samples, self.xi, 0.0, 0.0)


def own(tau: float, certify: Exactly | None = None) -> Servers:
    return Servers(2, tau / math.sqrt(1 + tau**2), certify or Exactly())


@pytest.mark.parametrize(
    ("batch", "rounds", "epsilon", "measured"),
    [(100, 651, 0.2, (10.5, 1.2, 0.35)), (100, 814, 0.5, (51.7, 7.2, 1.4))],
)
def test_the_figures_of_a9a_are_those_that_were_measured(
    batch: int, rounds: int, epsilon: float, measured: tuple[float, ...]
) -> None:
    event = Event((SampledGaussian(FixedSize(32_561, batch), 1.0, rounds),))
    noise, _ = smallest_noise(PLD, event, epsilon, DELTA)
    for tau, figure in zip((0.25, 0.5, 1.0), measured, strict=True):
        alone = PLD.epsilon(event.with_noise(noise * own(tau).left), DELTA).epsilon
        assert alone == pytest.approx(figure, rel=0.03)  # to its two digits
        found = own(tau).epsilon_if_one_lies(event.with_noise(noise), 123, DELTA, PLD, epsilon)
        assert found == (None if figure > 10 else pytest.approx(alone, rel=1e-9))


def test_it_is_the_accountants_figure_for_the_part_that_is_left_and_no_multiple(mechanism: Mechanism) -> None:
    claim = Claim.of(mechanism, 100, DELTA, PLD, EXACT, own(0.5))
    alone = mechanism.event("south").with_noise(4.0 * 0.5 / math.sqrt(1.25))
    assert claim.epsilon_if_a_server_lies == PLD.epsilon(alone, DELTA).epsilon
    assert claim.epsilon_if_a_server_lies > math.sqrt(5) * claim.epsilon  # without sampling it would be about that


def test_the_certificate_of_the_own_part_is_in_it(mechanism: Mechanism) -> None:
    exact = Claim.of(mechanism, 100, DELTA, PLD, EXACT, own(1.0)).epsilon_if_a_server_lies
    priced = Claim.of(mechanism, 100, DELTA, PLD, EXACT, own(1.0, Exactly(0.01))).epsilon_if_a_server_lies
    assert exact is not None
    assert priced is not None
    assert exact + 0.02 <= priced < exact + 0.021


def test_nothing_is_promised_without_own_noise_beyond_ten_or_without_a_certificate(mechanism: Mechanism) -> None:
    quiet = Mechanism(mechanism.cohorts, mechanism.clip, 0.9, mechanism.steps)
    for run, servers in (
        (mechanism, FOLLOWING),
        (quiet, own(0.25)),
        (mechanism, Servers(2, 0.4)),
        (mechanism, own(0.5, Exactly(most=0.1))),
    ):
        claim = Claim.of(run, 100, DELTA, PLD, EXACT, servers)
        assert claim.epsilon_if_a_server_lies is None
        assert NO_GUARANTEE in claim.sentence
        assert charge_of(run, "north", 100, DELTA, PLD, EXACT, Policy(), servers).cost.epsilon_if_a_server_lies is None


def test_where_every_server_adds_a_whole_sample_the_claim_itself_holds_and_says_so(mechanism: Mechanism) -> None:
    claim = Claim.of(mechanism, 100, DELTA, PLD, EXACT, Servers(1, 1.0, Exactly()))
    assert claim.epsilon_if_a_server_lies == claim.epsilon
    assert "one aggregator that may do anything at all" in claim.sentence
    assert "not the correctness of the result" in claim.sentence
    loud = Mechanism(mechanism.cohorts, mechanism.clip, 0.2, mechanism.steps)
    claim = Claim.of(loud, 100, DELTA, PLD, EXACT, Servers(1, 1.0, Exactly()))
    assert claim.epsilon > 10
    assert claim.epsilon_if_a_server_lies is None  # as every screen calls it: too weak to be a guarantee


def test_the_sentence_says_both(mechanism: Mechanism) -> None:
    claim = Claim.of(mechanism, 100, DELTA, PLD, EXACT, own(1.0))
    assert "one aggregator that follows the protocol" in claim.sentence
    assert f"If that aggregator does anything at all, they are ({claim.epsilon_if_a_server_lies:.4g}" in claim.sentence


def test_a_certificate_for_one_sample_does_not_carry_a_claim_on_two(mechanism: Mechanism) -> None:
    one = FinitePrecision(100 * mechanism.releases, 1e-6, 0.0, 0.0)
    Claim.of(mechanism, 100, DELTA, PLD, one)
    with pytest.raises(InvalidParameterError, match="certify the run's"):
        Claim.of(mechanism, 100, DELTA, PLD, one, own(0.5))
    with pytest.raises(InvalidParameterError, match="certify the run's"):
        charge_of(mechanism, "north", 100, DELTA, PLD, one, Policy(), own(0.5))


@pytest.mark.parametrize("rule", [Policy(), Policy("rdp", 16)])
def test_a_charge_carries_it_for_its_own_party_and_keeps_it_on_disk(mechanism: Mechanism, rule: Policy) -> None:
    servers = own(1.0)
    charge = charge_of(mechanism, "north", 100, DELTA, PLD, EXACT, rule, servers)
    due = servers.epsilon_if_one_lies(mechanism.event("north"), 100, DELTA, PLD, 0.0)
    assert (charge.cost.epsilon_if_a_server_lies, charge.cost.delta_if_a_server_lies) == (due, DELTA)
    assert Charge.from_json(charge.as_json()) == charge
    assert charge.after(0).epsilon_if_a_server_lies == 0
    assert charge.after(1).epsilon_if_a_server_lies == due


def test_over_runs_it_adds_up_and_one_without_a_guarantee_leaves_none() -> None:
    known = Cost(epsilon=1.0, delta=1e-5, epsilon_if_a_server_lies=2.0, delta_if_a_server_lies=1e-5)
    assert known.plus(known).epsilon_if_a_server_lies == 4.0
    assert known.plus(known).delta_if_a_server_lies == 2e-5
    without = Cost(epsilon=1.0, delta=1e-5, epsilon_if_a_server_lies=None)
    assert known.plus(without).epsilon_if_a_server_lies is None
    assert without.plus(known).plus(known).epsilon_if_a_server_lies is None
    assert added(None, 1.0) is None
    assert in_words(None, 1e-5) == in_words(10.001, 1e-5) == NO_GUARANTEE
    assert in_words(10.0, 1e-5) == "epsilon 10 at delta 1e-05 if a server lies"


def test_a_charge_of_an_older_ledger_promised_nothing(mechanism: Mechanism) -> None:
    body = charge_of(mechanism, "north", 100, DELTA, PLD, EXACT, Policy(), own(1.0)).as_json()
    old = {name: value for name, value in body["cost"].items() if "server_lies" not in name}
    assert Charge.from_json({**body, "cost": old}).cost.epsilon_if_a_server_lies is None
