"""The audit: its bounds are right where the answer is known, and it catches what it is for."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from parley.mpc.ring import Integers, Lattice
from parley.privacy.accountants import accountant
from parley.privacy.audit import (
    Finding,
    Records,
    ReleasePath,
    epsilon_from_guesses,
    epsilon_from_rates,
    neighbour_test,
    one_run_test,
    worst_neighbours,
)
from parley.privacy.errors import InvalidParameterError
from parley.privacy.mechanism import Mechanism
from parley.privacy.randomness import SystemRandomness
from parley.research import privacy_audit as command
from parley.research.release_path import LogisticTraining

SOURCE = SystemRandomness()
DELTA = 0.05


def claimed(mechanism: Mechanism, delta: float = DELTA) -> float:
    return accountant("pld").epsilon(mechanism.event("audited"), delta).epsilon


def examined(path: Callable[[Mechanism], ReleasePath], runs: int) -> tuple[Finding, float]:
    mechanism = command.audited(8)
    claim = claimed(mechanism)
    pair = worst_neighbours(8, 1, command.MAGNITUDE)
    return neighbour_test(path(mechanism), mechanism, pair, runs, DELTA, 0.95, claim), claim


def test_the_limits_on_rates_cover_at_their_stated_doubt() -> None:
    # Randomised response at ε = 1 has rates e/(1+e) and 1/(1+e): a bound above 1 may come once in twenty, exactly.
    doubt, runs = 0.05, 400
    hit = math.e / (1 + math.e)
    hits = np.arange(runs + 1)
    above = 0.0
    for false in range(40, 180):
        weight = float(binom.pmf(false, runs, 1 - hit))
        wrong = [epsilon_from_rates(int(true), runs, false, runs, 0.0, doubt) > 1.0 for true in hits[220:370]]
        above += weight * float(np.sum(binom.pmf(hits[220:370], runs, hit) * wrong))
    assert 0 < above <= doubt


def test_guesses_of_randomised_response_are_bounded_at_their_stated_doubt() -> None:
    rate = 1 / (1 + math.exp(-1.0))
    counts = np.arange(0, 201)
    wrong = np.array([epsilon_from_guesses(200, 200, int(count), 0.0, 0.05) > 1.0 for count in counts])
    assert 0 < float(np.sum(binom.pmf(counts, 200, rate) * wrong)) <= 0.05


def test_a_delta_that_explains_the_guesses_leaves_no_bound() -> None:
    assert epsilon_from_guesses(1000, 100, 100, 0.0, 0.05) > 3
    assert epsilon_from_guesses(1000, 100, 100, 1e-5, 0.05) > 2
    assert epsilon_from_guesses(1000, 100, 100, 0.05, 0.05) == 0.0
    assert epsilon_from_guesses(1000, 100, 50, 0.0, 0.05) == 0.0
    with pytest.raises(InvalidParameterError, match="cannot be"):
        epsilon_from_guesses(10, 5, 6, 0.0, 0.05)


def test_the_honest_system_stays_below_its_claim_and_reaches_forty_percent_of_it() -> None:
    # Above the claim at most once in twenty by the confidence, and far less often by the claim's own slack.
    finding, claim = examined(command.HONEST, 8000)
    assert 0.4 * claim <= finding.epsilon_lower_bound <= claim


@pytest.mark.parametrize("name", ["half the noise", "one noise in two rounds", "clipping off"])
def test_gross_faults_are_caught_by_the_statistic_alone(name: str) -> None:
    finding, claim = examined(command.FAULTS[name], 8000)
    assert finding.epsilon_lower_bound > claim
    assert finding.power > 0.999


@pytest.mark.slow
@pytest.mark.parametrize("name", list(command.FAULTS))
def test_all_five_faults_are_caught_at_the_commands_own_size(name: str) -> None:
    finding, claim = examined(command.FAULTS[name], 40_000)
    assert finding.epsilon_lower_bound > claim
    assert finding.power > 0.99


def test_one_training_with_canaries_bounds_epsilon_below_the_claim() -> None:
    mechanism = command.audited(600)
    finding = one_run_test(command.HONEST(mechanism), mechanism, command.MAGNITUDE, 1e-5, 0.95, SOURCE)
    assert 0.5 < finding.epsilon_lower_bound <= claimed(mechanism, 1e-5)
    halved = command.FAULTS["half the noise"](mechanism)
    assert one_run_test(halved, mechanism, command.MAGNITUDE, 1e-5, 0.95, SOURCE).epsilon_lower_bound > 1.5


def test_the_path_releases_what_the_mechanism_accounts() -> None:
    class Silent:
        def release(self, lattice: Lattice, count: int) -> Integers:
            return np.zeros(count, np.int64)

    mechanism = command.audited(8)
    path = LogisticTraining(mechanism, Silent(), command.SMOOTHNESS)
    same, other = worst_neighbours(8, 1, command.MAGNITUDE)
    first, second = path.run(same).openings
    # Every record pulls with its full clipped length, in the first round and after it.
    assert first[0][0] == pytest.approx(4 * 1.0, rel=1e-3)
    assert second[0][0] == pytest.approx(4 * 0.5, rel=2e-2)
    moved = {round(float(first[0][0] - path.run(other).openings[0][0][0]), 2) for _ in range(60)}
    assert moved == {0.0, mechanism.sensitivity(0)}


def test_features_that_are_not_whole_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="whole numbers"):
        command.HONEST(command.audited(8)).run(Records(np.full((8, 1), 0.5), np.zeros(8)))
