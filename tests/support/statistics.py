"""A statistical suite for standard normal samples. Each check returns a p-value; each is held to LEVEL.

False alarms: a correct sampler fails one check with probability LEVEL, all of them together at most len(checks) *
LEVEL, about 1.1e-8, and some set of the seventeen that CI looks at less than once in three million runs. (At 30,000
samples, the fewest of a set, the mean of fourth powers is not quite normal: "kurtosis" fails with four times LEVEL. The
dithers add 8e-5 to the variance; at the 2 to 3 million samples of the largest sets that is 0.1 deviations of the
variance check.)
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 1e-9
Samples = NDArray[np.float64]


def kolmogorov_smirnov(x: Samples) -> float:
    return float(stats.kstest(x, "norm").pvalue)


def chi_square(x: Samples) -> float:
    """1,000 bins that a normal fills alike."""
    edges = stats.norm.ppf(np.linspace(0, 1, 1001)[1:-1])
    counts = np.bincount(np.searchsorted(edges, x), minlength=1000)
    return float(stats.chisquare(counts).pvalue)


def _two_sided(z: float) -> float:
    return float(2 * stats.norm.sf(abs(z)))


def mean(x: Samples) -> float:
    return _two_sided(float(x.mean()) * len(x) ** 0.5)


def variance(x: Samples) -> float:
    return _two_sided((float((x**2).mean()) - 1) * (len(x) / 2) ** 0.5)


def skewness(x: Samples) -> float:
    return _two_sided(float((x**3).mean()) * (len(x) / 15) ** 0.5)


def kurtosis(x: Samples) -> float:
    return _two_sided((float((x**4).mean()) - 3) * (len(x) / 96) ** 0.5)


def tail(limit: float) -> Callable[[Samples], float]:
    """How many lie beyond +-limit."""

    def check(x: Samples) -> float:
        count = int((np.abs(x) > limit).sum())
        return float(stats.binomtest(count, len(x), 2 * float(stats.norm.sf(limit))).pvalue)

    return check


def successive(x: Samples) -> float:
    """Neighbours are uncorrelated."""
    return _two_sided(float((x[1:] * x[:-1]).mean()) * (len(x) - 1) ** 0.5)


CHECKS: dict[str, Callable[[Samples], float]] = {
    "Kolmogorov-Smirnov": kolmogorov_smirnov,
    "chi-square, 1,000 bins": chi_square,
    "mean": mean,
    "variance": variance,
    "skewness": skewness,
    "kurtosis": kurtosis,
    "tail beyond 3": tail(3),
    "tail beyond 4": tail(4),
    "tail beyond 4.5": tail(4.5),
    "tail beyond 5": tail(5),
    "successive samples": successive,
}


def failures(x: Samples) -> dict[str, float]:
    """The checks that samples do not pass, with their p-values."""
    values = {name: check(x) for name, check in CHECKS.items()}
    return {name: value for name, value in values.items() if not value >= LEVEL}
