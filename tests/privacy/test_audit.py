"""The audit: its bounds are right where the answer is known, and it catches what it is for."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from parley.privacy.audit import (
    NO_SIGNAL,
    epsilon_from_guesses,
    epsilon_from_rates,
    most_noise,
)
from parley.privacy.errors import InvalidParameterError


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


def test_the_most_noise_of_two_samples_is_below_the_true_one_at_its_stated_doubt() -> None:
    # 1,000 pairs of samples: 50 expected, with a deviation of 7; the seed is fixed, so that this never fails by chance.
    law, noise, doubt = np.random.default_rng(3), 1.7, 0.05
    samples = law.normal(scale=noise, size=(1000, 2, 400)) + np.array([[0.5], [-0.5]])
    found = np.array([most_noise(higher, lower, doubt) for higher, lower in samples])
    assert 0.03 < np.mean(found < noise) < 0.07
    assert np.median(found) < 1.3 * noise


def test_samples_that_cannot_be_told_apart_allow_any_noise() -> None:
    values = np.linspace(-1, 1, 200)
    assert most_noise(values, values, 0.05) == NO_SIGNAL
    assert most_noise(values, values + 1, 0.05) == NO_SIGNAL
    with pytest.raises(InvalidParameterError, match="numbers of each sample"):
        most_noise(values[:99], values, 0.05)
