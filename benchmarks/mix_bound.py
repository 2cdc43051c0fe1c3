"""What mixing noise over audited batches would promise, by the bound of docs/decisions/mix.md, and what draws show.

    python benchmarks/mix_bound.py

No product code mixes; the page says why. Draws show how far the bound is from what happens, and prove nothing.
"""

import math

import numpy as np
from scipy.optimize import brentq

MISSED = 2.0**-41
"""The chance that is given to each of the bound's two parts, so 2^-40 for both."""
LEFT = 4
"""A group is used until one in so many of its lanes is left."""


def unseen(rate: float) -> int:
    """Spoiled batches that pass with a chance of at most 2^-40."""
    return math.ceil(40 * math.log(2) / -math.log1p(-rate))


def largest_share(block: int) -> float:
    """Of a difference's energy on one lane, whatever the difference is."""
    return 2 / block * math.log(2 * block / MISSED)


def share_of_bad_lanes(spoiled: float, lanes: int) -> float:
    """Among those that are left, at any time, if so many were spoiled at first."""
    return spoiled + math.sqrt(-math.log(MISSED) / (2 * lanes / LEFT))


def energy(bad: float, block: int) -> float:
    """The most of a difference's energy that falls on bad lanes: Bennett's inequality."""
    most = largest_share(block)

    def excess(u: float) -> float:
        return bad / most * ((1 + u) * math.log1p(u) - u) + math.log(MISSED)

    return min(1.0, bad * (1 + brentq(excess, 1e-9, 1e6)))


def deviation(g: float) -> float:
    """Released, over what one honest joint sample would need for the same claim, with the best part of own noise."""
    return math.sqrt(1 + 2 * math.sqrt(g * (1 - g))) if g < 0.5 else math.sqrt(2)


def mixed(block: int, values: np.ndarray) -> np.ndarray:
    """The Hadamard transform of length `block`, orthogonal."""
    width = 1
    while width < block:
        pairs = values.reshape(-1, 2, width)
        values = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1).reshape(-1)
        width *= 2
    return values / math.sqrt(block)


def seen(block: int, bad: float, nonzero: int, draws: int) -> float:
    """The greatest energy on bad lanes in so many draws, for a difference of equal numbers."""
    rng, count = np.random.default_rng(nonzero), round(bad * block)
    found = 0.0
    for _ in range(draws):
        difference = np.zeros(block)
        difference[:nonzero] = rng.choice((-1.0, 1.0), nonzero) / math.sqrt(nonzero)
        on = rng.choice(block, count, replace=False)
        found = max(found, float((mixed(block, difference)[on] ** 2).sum()))
    return found


if __name__ == "__main__":
    print("audits  batches x lanes   block  spoiled, unseen   share left    g  deviation   greatest g of 300 draws")
    for rate, batches, lanes in ((0.25, 4096, 1024), (0.5, 4096, 1024), (0.25, 32768, 128)):
        spoiled = unseen(rate)
        # Audited batches are thrown away; the spoiled ones that are left are left among the rest.
        used = (1 - rate) * batches
        bad = share_of_bad_lanes(spoiled / used, round(used * lanes))
        for bits in (12, 14, 16):
            block = 1 << bits
            g = energy(bad, block)
            shown = " ".join(f"{seen(block, bad, n, 300):.3f}" for n in (1, 2, 123, block))
            print(
                f"{rate:>6}  {batches:>7} x {lanes:<5} {block:>7}  {spoiled:>15}   {bad:>10.4f}  "
                f"{g:.3f}   +{100 * (deviation(g) - 1):.1f} %   {shown}"
            )
