"""Which parties of a run can be the least protected one: all others need not be computed."""

from parley.privacy.accountants import Accountant
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event

MOST_READINGS = 10
"""Parties whose ε may have to be computed for one claim, and ε₂ beside it: what a stranger's manifest may cost."""


def worst(events: dict[str, Event], chosen: Accountant) -> dict[str, Event]:
    """Of these parties' events those that the largest epsilon can be of.

    A reading follows from the rates at which units are drawn, in the first release and after it, and from the
    probability that a padded batch overflows; more of either is never more private. So a party counts only if none
    exceeds it in all of them: a reading takes some 40 ms, and a manifest may list thousands of sizes.
    """
    if chosen.name not in ("pld", "rdp"):
        found = dict(events)
    else:
        by_size: dict[tuple[float, float, float], tuple[str, Event]] = {}
        for party, event in events.items():
            rates = (event.releases[-1].sampler.rate, event.releases[0].sampler.rate)
            by_size.setdefault((*rates, event.overflow_probability), (party, event))  # of equals the first is named
        kept: list[tuple[float, float, float]] = []
        for size in sorted(by_size, reverse=True):
            if not any(all(own <= its for own, its in zip(size, other, strict=True)) for other in kept):
                kept.append(size)
            if len(kept) > MOST_READINGS:
                break
        found = dict(by_size[size] for size in kept)
    if len(set(found.values())) > MOST_READINGS:
        raise InvalidParameterError(
            f"parties sample in over {MOST_READINGS} ways of which none is plainly the least private: use fewer sizes"
        )
    return found
