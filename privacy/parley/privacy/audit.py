"""Audits: lower bounds on ε from what a training really releases. Needs numpy and scipy (the `accounting` extra).

`neighbour_test` runs a training many times on a data set and on its worst neighbour and asks how well a fixed battery
of statistics tells the two apart: with probability `confidence` the training is not (ε, δ)-private for any ε below the
bound, whatever the system does, because only exact binomial limits on error rates enter. `one_run_test` needs a single
training with many canaries (Steinke, Nasr and Jagielski 2023, Theorem 5.2). Neither looks inside: they see what the
coordinator sees. A bound above the claim proves a fault; a bound below it proves nothing, but shows the audit's reach.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri
from scipy.stats import binom

from parley.privacy.accountants import require_delta
from parley.privacy.errors import InvalidParameterError
from parley.privacy.mechanism import Mechanism
from parley.privacy.randomness import Randomness, uniform_words
from parley.privacy.sampling import require_whole

Floats = npt.NDArray[np.float64]
SELECTION_DOUBT = 1e-6
"""Of the limits that choose a threshold: strict, or the luckiest of many wins, far out and on few counts."""
NO_SIGNAL = 1e4
"""Noise over its sensitivity that hides everything, and that accountants still take."""


@dataclass(frozen=True)
class Records:
    """A training set: `features: float64[units, dimension]` and `labels: float64[units]`, each 0 or 1."""

    features: Floats
    labels: Floats


@dataclass(frozen=True)
class Transcript:
    """What the coordinator sees of one training: per round, every opening of the noised sum, float64[dimension]."""

    openings: tuple[tuple[Floats, ...], ...]


class ReleasePath(Protocol):
    """Something that trains. The real federation implements this, and so does every deliberate fault."""

    def run(self, records: Records) -> Transcript:
        """Train once on these records, all of one party, with fresh randomness."""
        ...


@dataclass(frozen=True)
class Finding:
    """A lower bound, and what it was made of."""

    epsilon_lower_bound: float
    statistic: str
    power: float
    """Probability that a repetition on the same system would exceed the claim, from the rates that were observed."""
    runs: int


def worst_neighbours(units: int, dimension: int, magnitude: float) -> tuple[Records, Records]:
    """All records agree, but for one that pulls the other way: the worst case of sampling without replacement."""
    features = np.zeros((units, dimension))
    features[:, 0] = magnitude
    labels = np.zeros(units)
    flipped = labels.copy()
    flipped[0] = 1.0
    return Records(features, labels), Records(features, flipped)


def neighbour_test(
    path: ReleasePath,
    mechanism: Mechanism,
    neighbours: tuple[Records, Records],
    runs: int,
    delta: float,
    confidence: float,
    claimed: float,
) -> Finding:
    """The lower bound on ε at δ from `runs` trainings on each neighbour.

    The first half of the runs chooses a threshold for each statistic and direction, the second half measures it, and
    the confidence is shared by all four (Bonferroni), so that nothing is picked after the fact.
    """
    require_delta(delta)
    require_whole("runs", runs, 100, 10_000_000)
    base, changed = (_observed(path, mechanism, records, runs) for records in neighbours)
    centre = np.median(base.values[: runs // 2], axis=0)
    scores = [
        (name, score(base, centre, mechanism), score(changed, centre, mechanism))
        for name, score in (("likelihood ratio", _likelihood_ratio), ("difference of rounds", _round_difference))
    ]
    doubt = (1 - confidence) / (2 * len(scores))
    best = Finding(0.0, "none", 0.0, 2 * runs)
    power = 0.0
    for name, without, with_change in scores:
        for hits, misses in ((with_change, without), (-without, -with_change)):
            bound, likely = measured(hits, misses, delta, doubt, claimed)
            power = max(power, likely)
            if bound > best.epsilon_lower_bound:
                best = Finding(bound, name, likely, 2 * runs)
    return Finding(best.epsilon_lower_bound, best.statistic, power, best.runs)


@dataclass(frozen=True)
class _Observed:
    """`values: float64[runs, rounds]`, the mean opening of a round over its sensitivity, in the audited direction."""

    values: Floats
    openings: npt.NDArray[np.int64]


def _observed(path: ReleasePath, mechanism: Mechanism, records: Records, runs: int) -> _Observed:
    """Project each release onto the direction in which the neighbours differ."""
    values = np.zeros((runs, mechanism.releases))
    openings = np.ones(mechanism.releases, dtype=np.int64)
    for run in range(runs):
        transcript = path.run(records)
        for index, opened in enumerate(transcript.openings):
            openings[index] = len(opened)
            # A record of label 0 pulls with +features: the flipped one lowers the sum.
            values[run, index] = -float(np.mean([vector[0] for vector in opened])) / mechanism.sensitivity(index)
    return _Observed(values, openings)


def _likelihood_ratio(observed: _Observed, centre: Floats, mechanism: Mechanism) -> Floats:
    """The optimal statistic against the mechanism as it is accounted, with as many openings as were seen."""
    total = np.zeros(len(observed.values))
    party = mechanism.cohorts[0].party
    for index in range(mechanism.releases):
        rate = mechanism.sampler(party, index).rate
        moved = observed.values[:, index] - centre[index]
        exponent = observed.openings[index] * (moved - 0.5) / mechanism.noise_multiplier**2
        total += np.logaddexp(math.log1p(-rate) if rate < 1 else -np.inf, math.log(rate) + exponent)
    return total


def _round_difference(observed: _Observed, centre: Floats, mechanism: Mechanism) -> Floats:
    """The largest distance between two rounds, in which noise that was used twice cancels."""
    moved = observed.values - centre
    return np.asarray(moved.max(axis=1) - moved.min(axis=1), dtype=np.float64)


def measured(hits: Floats, misses: Floats, delta: float, doubt: float, claimed: float) -> tuple[float, float]:
    """log((true positives − δ) / false positives) by exact limits, and how often it would exceed the claim."""
    half = len(hits) // 2
    pooled = np.concatenate([hits[:half], misses[:half]])
    candidates = np.unique(
        np.quantile(pooled, np.concatenate([np.linspace(0.02, 0.98, 97), 1 - np.geomspace(0.02, 2e-4, 30)]))
    )
    chosen = max(
        candidates, key=lambda level: _bound(hits[:half] > level, misses[:half] > level, delta, SELECTION_DOUBT)
    )
    true, false = hits[half:] > chosen, misses[half:] > chosen
    bound = _bound(true, false, delta, doubt)
    return bound, _power(true, false, delta, doubt, claimed)


def _bound(true: npt.NDArray[np.bool_], false: npt.NDArray[np.bool_], delta: float, doubt: float) -> float:
    return epsilon_from_rates(int(true.sum()), len(true), int(false.sum()), len(false), delta, doubt)


def epsilon_from_rates(true: int, of_true: int, false: int, of_false: int, delta: float, doubt: float) -> float:
    """ε that contradicts fewer than so many hits and more than so few misses; each limit fails with doubt / 2."""
    lowest = float(betaincinv(true, of_true - true + 1, doubt / 2)) if true else 0.0
    highest = float(betaincinv(false + 1, of_false - false, 1 - doubt / 2)) if false < of_false else 1.0
    if lowest <= delta or highest <= 0:
        return 0.0
    return max(0.0, math.log((lowest - delta) / highest))


def most_noise(higher: Floats, lower: Floats, doubt: float) -> float:
    """The most noise, over its sensitivity, that two samples in units of that sensitivity allow, if noise is normal.

    From the law of the difference of their means over its estimated error, whose own error is normal for the hundreds
    of numbers that this asks for. `NO_SIGNAL` where they cannot be told apart.
    """
    require_whole("numbers of each sample", min(len(higher), len(lower)), 100, 10**9)
    each = 1 / len(higher) + 1 / len(lower)
    degrees = len(higher) + len(lower) - 2
    pooled = (len(higher) - 1) * np.var(higher, ddof=1) + (len(lower) - 1) * np.var(lower, ddof=1)
    ratio = float((higher.mean() - lower.mean()) / math.sqrt(pooled / degrees * each))
    least = ratio + float(ndtri(doubt)) * math.sqrt(1 + ratio**2 / (2 * degrees))
    return min(NO_SIGNAL, 1 / (least * math.sqrt(each))) if least > 0 else NO_SIGNAL


def _power(
    true: npt.NDArray[np.bool_], false: npt.NDArray[np.bool_], delta: float, doubt: float, claimed: float
) -> float:
    """P[bound > claim] over both binomials at the observed rates (half a count added, so that no rate is 0 or 1)."""
    total = len(true)
    hits = np.arange(total + 1)
    rate_true, rate_false = (true.sum() + 0.5) / (total + 1), (false.sum() + 0.5) / (total + 1)
    # For every number of misses, the fewest hits that still exceed the claim.
    highest = np.where(hits < total, betaincinv(hits + 1, np.maximum(total - hits, 1), 1 - doubt / 2), 1.0)
    lowest = np.where(hits > 0, betaincinv(np.maximum(hits, 1), total - hits + 1, doubt / 2), 0.0)
    needed = np.searchsorted(lowest, delta + math.exp(claimed) * highest, side="right")
    enough = binom.sf(needed - 1, total, rate_true)
    return float(min(1.0, np.sum(binom.pmf(hits, total, rate_false) * np.where(needed <= total, enough, 0.0))))


def canaries(count: int, magnitude: float, source: Randomness) -> tuple[Records, npt.NDArray[np.int64]]:
    """Records on coordinates of their own with labels from the source, and the signs ±1 that an auditor must guess."""
    labels = (uniform_words(source, count) & np.uint64(1)).astype(np.float64)
    signs = (2 * labels - 1).astype(np.int64)
    return Records(magnitude * np.eye(count), labels), signs


def one_run_test(
    path: ReleasePath,
    mechanism: Mechanism,
    magnitude: float,
    delta: float,
    confidence: float,
    source: Randomness,
    guesses: Sequence[float] = (0.02, 0.05, 0.1, 0.2),
    units: int | None = None,
) -> Finding:
    """A lower bound on ε at δ from one training, every unit of which is a canary with a label to be guessed.

    The shares of canaries that are guessed, the surest first, are fixed beforehand and share the confidence. `units`
    counts all canaries of a path that has more than the first party's: of several parties, or of several trainings,
    each canary in one of them.
    """
    require_delta(delta)
    party = mechanism.cohorts[0].party
    count = units or mechanism.sampler(party, 0).units
    records, signs = canaries(count, magnitude, source)
    transcript = path.run(records)
    scores = np.zeros(count)
    for index, opened in enumerate(transcript.openings):
        rate = mechanism.sampler(party, index).rate
        moved = -np.mean(np.stack(opened), axis=0) / mechanism.sensitivity(index)
        variance = mechanism.noise_multiplier**2 / len(opened)
        base = math.log1p(-rate) if rate < 1 else -math.inf
        raised, lowered = ((sign * moved / 2 - 0.125) / variance + math.log(rate) for sign in (1, -1))
        scores += np.logaddexp(base, raised) - np.logaddexp(base, lowered)
    order = np.argsort(-np.abs(scores))
    best = Finding(0.0, "none", 0.0, 1)
    for share in guesses:
        made = max(1, int(share * count))
        chosen = order[:made]
        correct = int(np.sum(np.sign(scores[chosen]) == signs[chosen]))
        bound = epsilon_from_guesses(count, made, correct, delta, (1 - confidence) / len(guesses))
        if bound > best.epsilon_lower_bound:
            best = Finding(bound, f"{correct} of {made} guesses", 0.0, 1)
    return best


def epsilon_from_guesses(canary_count: int, made: int, correct: int, delta: float, doubt: float) -> float:
    """The largest ε at which so many correct guesses have a probability below `doubt` (Theorem 5.2 there)."""
    if not 0 <= correct <= made <= canary_count:
        raise InvalidParameterError(
            f"{correct} of {made} guesses on {canary_count} canaries cannot be: check the counts"
        )

    def likely(epsilon: float) -> bool:
        rate = 1 / (1 + math.exp(-epsilon))
        at_least = binom.sf(np.arange(correct, -1, -1) - 1, made, rate)
        # One unit of δ may explain i more correct guesses at once, and costs 1/i.
        gains = (at_least[1:] - at_least[0]) / np.arange(1, correct + 1)
        explained = float(np.max(gains, initial=0.0))
        return bool(at_least[0] + 2 * canary_count * delta * explained > doubt)

    if likely(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not likely(high) and high < 100:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if likely(middle) else (middle, high)
    return low
