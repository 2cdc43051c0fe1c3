"""How many lanes of a batch may be accepted: a server that squeezes the law, or forces accept bits, shows in the count.

A lane of honest servers is accepted with the probability that the tables fix (parley.mpc.law, an exact fraction), each
for itself. A count is refused where it is more than DEVIATIONS standard deviations off AND in a tail of less than TAIL:
for full batches the first decides, for small ones, whose counts are far from normal, the second. So an honest batch is
refused with a probability below 2 * TAIL = 1.8e-15: at 20 batches a second, once in nine hundred thousand years.
"""

import math
from collections.abc import Iterable

from parley.mpc import law
from parley.mpc.errors import AcceptedCountError
from parley.mpc.tables import Tables

DEVIATIONS = 10
TAIL = 2.0**-50

_ranges: dict[tuple[bytes, int], tuple[int, int]] = {}


def accepted_range(tables: Tables, lanes: int) -> tuple[int, int]:
    """The fewest and the most of so many lanes that honest servers accept."""
    key = (tables.digest, lanes)
    if key not in _ranges:
        _ranges[key] = binomial_range(float(law.acceptance(tables)), lanes)
    return _ranges[key]


def binomial_range(probability: float, lanes: int) -> tuple[int, int]:
    """The counts of so many trials that are within DEVIATIONS, or in no tail below TAIL."""
    mean, deviation = lanes * probability, math.sqrt(lanes * probability * (1 - probability))
    lowest = max(0, math.ceil(mean - DEVIATIONS * deviation))
    highest = min(lanes, math.floor(mean + DEVIATIONS * deviation))
    in_tail = _first_outside(probability, lanes, range(lanes + 1))
    from_top = _first_outside(probability, lanes, range(lanes, -1, -1))
    return min(lowest, in_tail), max(highest, from_top)


def _first_outside(probability: float, lanes: int, counts: Iterable[int]) -> int:
    """The first count, from one end, at which the tail up to it reaches TAIL."""
    yes, no = math.log(probability), math.log1p(-probability)
    tail, whole = 0.0, math.lgamma(lanes + 1)
    for count in counts:
        tail += math.exp(
            whole - math.lgamma(count + 1) - math.lgamma(lanes - count + 1) + count * yes + (lanes - count) * no
        )
        if tail >= TAIL:
            return count
    raise AssertionError("the probabilities of all counts add up to one")


def check_accepted(tables: Tables, lanes: int, accepted: int) -> None:
    """An AcceptedCountError ends the session, and with it all its samples."""
    lowest, highest = accepted_range(tables, lanes)
    if not lowest <= accepted <= highest:
        raise AcceptedCountError(
            f"{accepted:,} of {lanes:,} lanes were accepted, and honest servers accept {lowest:,} to {highest:,}: the "
            "other server did not follow the noise protocol"
        )
