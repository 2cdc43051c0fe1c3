"""Calibration: the smallest noise for (ε, δ, T), and the largest T for a given noise.

Whatever is returned has been read from the accountant itself and satisfies the target; the search only decides how
close to the best it is (one part in two thousand of the noise, exact for T).
"""

import math
from collections.abc import Callable

from parley.privacy.accountants import Accountant, Reading, require_delta, require_epsilon
from parley.privacy.errors import ConditionsUnmetError, InvalidParameterError
from parley.privacy.event import LARGEST_COUNT, LARGEST_NOISE, SMALLEST_NOISE, Event, SampledGaussian
from parley.privacy.paper_accountant import PaperAccountant

TOLERANCE = 5e-4
DIGITS = 9
"""Of a noise that is tried. Processors round exponentials differently in the fourteenth digit: with fewer digits than
that, one study has one noise, and so one manifest, wherever it is drafted."""
STEEPEST = 3.0
"""Of log(ε / target), for the chord to be of use."""


def require_target(epsilon: float) -> float:
    """`epsilon` as a finite number above 0."""
    if require_epsilon(epsilon) == 0:
        raise InvalidParameterError("epsilon is 0: no finite noise reaches it, give a number above 0")
    return epsilon


def smallest_noise(chosen: Accountant, event: Event, epsilon: float, delta: float) -> tuple[float, Reading]:
    """The smallest noise multiplier whose reading is at most ε at δ, and that reading."""
    require_target(epsilon)
    require_delta(delta)
    last_refusal: list[ConditionsUnmetError] = []

    def read(noise: float) -> Reading | None:
        try:
            return chosen.epsilon(event.with_noise(noise), delta)
        except ConditionsUnmetError as refusal:
            last_refusal.append(refusal)
            return None

    low, below, high, reading = _bracket(read, epsilon)
    if high is None or reading is None:
        if last_refusal and isinstance(chosen, PaperAccountant):
            least = chosen.smallest_certifiable(event, delta)
            raise ConditionsUnmetError(
                f"no noise reaches epsilon {epsilon} within the conditions of Lemma 3.7, which go down to "
                f"{least:.3g} here: use accountant pld",
                last_refusal[-1].conditions,
            )
        raise InvalidParameterError(
            f"no noise reaches epsilon {epsilon} at delta {delta}: raise either, sample less, "
            "or give poisson a larger cap"
        )
    low_value = _distance(below, epsilon)
    high_value = math.log(max(reading.epsilon, 1e-300) / epsilon)
    while high / low > 1 + TOLERANCE:
        width = high / low
        # ε is close to a power of the noise: aim where the chord of the logarithms says, a little to the safe side.
        if low_value is not None and 0 < low_value < STEEPEST and -STEEPEST < high_value < 0:
            guess = low * width ** (low_value / (low_value - high_value)) * (1 + TOLERANCE / 3)
            low, low_value, high, high_value, reading = _narrowed(
                read, epsilon, guess, (low, low_value, high, high_value, reading)
            )
        # The chord may creep from one side; halving keeps the number of readings logarithmic.
        if high / low > math.sqrt(width):
            low, low_value, high, high_value, reading = _narrowed(
                read, epsilon, math.sqrt(low * high), (low, low_value, high, high_value, reading)
            )
    return high, reading


Bracket = tuple[float, float | None, float, float, Reading]
"""The two noises, log(ε / target) at each (None where there is no reading), and the reading at the upper one."""


def _narrowed(read: Callable[[float], Reading | None], epsilon: float, guess: float, bracket: Bracket) -> Bracket:
    """The bracket after a reading at `guess`, which is kept off its ends."""
    low, low_value, high, high_value, reading = bracket
    guess = min(max(guess, low * (1 + TOLERANCE / 4)), high / (1 + TOLERANCE / 4))
    guess = float(f"{guess:.{DIGITS}g}")
    found = read(guess)
    if found is not None and found.epsilon <= epsilon:
        return low, low_value, guess, math.log(max(found.epsilon, 1e-300) / epsilon), found
    return guess, _distance(found, epsilon), high, high_value, reading


def _distance(found: Reading | None, epsilon: float) -> float | None:
    return math.log(found.epsilon / epsilon) if found is not None and math.isfinite(found.epsilon) else None


def _bracket(
    read: Callable[[float], Reading | None], epsilon: float
) -> tuple[float, Reading | None, float | None, Reading | None]:
    """Doubling or halving from 1: two noises and their readings, of which the upper one, if any, fits."""
    noise = 1.0
    reading = read(noise)
    if reading is not None and reading.epsilon <= epsilon:
        while noise > SMALLEST_NOISE:
            smaller = max(noise / 2, SMALLEST_NOISE)
            below = read(smaller)
            if below is None or below.epsilon > epsilon:
                return smaller, below, noise, reading
            noise, reading = smaller, below
        return noise, None, noise, reading
    while noise < LARGEST_NOISE:
        larger = min(noise * 2, LARGEST_NOISE)
        above = read(larger)
        if above is not None and above.epsilon <= epsilon:
            return noise, reading, larger, above
        noise, reading = larger, above
    return noise, reading, None, None


def largest_count(chosen: Accountant, event: Event, epsilon: float, delta: float) -> tuple[int, Reading]:
    """How often the last kind of release may be made, in all, to stay within ε at δ; and the reading there."""
    require_target(epsilon)
    require_delta(delta)
    if not event.releases:
        raise InvalidParameterError("the event has no release to repeat")
    *before, last = event.releases

    def read(count: int) -> Reading | None:
        repeated = SampledGaussian(last.sampler, last.noise_multiplier, count)
        try:
            found = chosen.epsilon(Event((*before, repeated), event.relation), delta)
        except ConditionsUnmetError:
            return None
        return found if found.epsilon <= epsilon else None

    reading = read(1)
    if reading is None:
        raise InvalidParameterError(
            f"not even one round fits epsilon {epsilon} at delta {delta}: raise either or the noise"
        )
    low, high = 1, LARGEST_COUNT + 1
    step = 1
    while low + step < high:
        found = read(low + step)
        if found is None:
            high = low + step
            break
        low, reading, step = low + step, found, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        found = read(middle)
        if found is None:
            high = middle
        else:
            low, reading = middle, found
    return low, reading
