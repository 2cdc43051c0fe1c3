"""Calibration: the smallest noise for (ε, δ, T), and the largest T for a given noise. Imports `privacy` only.

Whatever is returned has been read from the accountant itself and satisfies the target; the search only decides how
close to the best it is (one part in two thousand of the noise, exact for T).
"""

import math
from collections.abc import Callable

from privacy.accountants import Accountant, Reading, require_delta, require_epsilon
from privacy.errors import ConditionsUnmet, InvalidParameter
from privacy.event import LARGEST_COUNT, Event, SampledGaussian
from privacy.paper_accountant import PaperAccountant

SMALLEST_NOISE, LARGEST_NOISE = 0.02, 1e7
TOLERANCE = 5e-4


def require_target(epsilon: float) -> float:
    """`epsilon` as a finite number above 0."""
    if require_epsilon(epsilon) == 0:
        raise InvalidParameter("epsilon is 0: no finite noise reaches it, give a number above 0")
    return epsilon


def smallest_noise(chosen: Accountant, event: Event, epsilon: float, delta: float) -> tuple[float, Reading]:
    """The smallest noise multiplier whose reading is at most ε at δ, and that reading."""
    require_target(epsilon)
    require_delta(delta)
    last_refusal: list[ConditionsUnmet] = []

    def read(noise: float) -> Reading | None:
        try:
            return chosen.epsilon(event.with_noise(noise), delta)
        except ConditionsUnmet as refusal:
            last_refusal.append(refusal)
            return None

    low, high, reading = _bracket(read, epsilon)
    if high is None or reading is None:
        if last_refusal and isinstance(chosen, PaperAccountant):
            least = chosen.smallest_certifiable(event, delta)
            raise ConditionsUnmet(
                f"no noise reaches epsilon {epsilon} within the conditions of Lemma 3.7, which go down to "
                f"{least:.3g} here: use accountant pld",
                last_refusal[-1].conditions,
            )
        raise InvalidParameter(
            f"no noise reaches epsilon {epsilon} at delta {delta}: raise either, sample less, "
            "or give poisson a larger cap"
        )
    # False position on logarithms, the stale end halved (Illinois): ε is close to a power of the noise.
    low_value: float | None = None
    high_value = math.log(max(reading.epsilon, 1e-300) / epsilon)
    stale = 0
    while high / low > 1 + TOLERANCE:
        middle = math.sqrt(low * high)
        if low_value is not None and low_value > 0 > high_value and stale < 3:
            weight = low_value / (low_value - high_value)
            guess = low * (high / low) ** weight
            # Aim a little high, so that the upper end moves too and the bracket closes from both sides.
            middle = min(max(guess * (1 + TOLERANCE / 3), low * (1 + TOLERANCE / 4)), high / (1 + TOLERANCE / 4))
        found = read(middle)
        if found is not None and found.epsilon <= epsilon:
            stale = stale + 1 if stale >= 0 else 0
            high, reading, high_value = middle, found, math.log(max(found.epsilon, 1e-300) / epsilon)
            low_value = low_value / 2 if low_value is not None and stale > 1 else low_value
        else:
            low = middle
            known = found is not None and math.isfinite(found.epsilon)
            low_value = math.log(found.epsilon / epsilon) if known and found is not None else None
            stale = 0
    return high, reading


def _bracket(read: Callable[[float], Reading | None], epsilon: float) -> tuple[float, float | None, Reading | None]:
    """Doubling or halving from 1; the reading belongs to the upper end."""
    noise = 1.0
    reading = read(noise)
    if reading is not None and reading.epsilon <= epsilon:
        while noise > SMALLEST_NOISE:
            smaller = max(noise / 2, SMALLEST_NOISE)
            below = read(smaller)
            if below is None or below.epsilon > epsilon:
                return smaller, noise, reading
            noise, reading = smaller, below
        return noise, noise, reading
    while noise < LARGEST_NOISE:
        larger = noise * 2
        above = read(larger)
        if above is not None and above.epsilon <= epsilon:
            return noise, larger, above
        noise = larger
    return noise, None, None


def largest_count(
    chosen: Accountant, release: SampledGaussian, epsilon: float, delta: float, before: tuple[SampledGaussian, ...] = ()
) -> tuple[int, Reading]:
    """The most releases like `release` (after those of `before`) that stay within ε at δ, and the reading there."""
    require_target(epsilon)
    require_delta(delta)

    def read(count: int) -> Reading | None:
        repeated = (SampledGaussian(release.sampler, release.noise_multiplier, count),) if count else ()
        try:
            found = chosen.epsilon(Event((*before, *repeated)), delta)
        except ConditionsUnmet:
            return None
        return found if found.epsilon <= epsilon else None

    reading = read(1)
    if reading is None:
        raise InvalidParameter(f"not even one round fits epsilon {epsilon} at delta {delta}: raise either or the noise")
    low, high = 1, 2
    while high <= LARGEST_COUNT:
        found = read(high)
        if found is None:
            break
        low, high, reading = high, high * 2, found
    high = min(high, LARGEST_COUNT + 1)
    while high - low > 1:
        middle = (low + high) // 2
        found = read(middle)
        if found is None:
            high = middle
        else:
            low, reading = middle, found
    return low, reading
