"""Rounds in memory, read once and then only what is new: ten thousand records are parsed when the process starts."""

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, median

from parley.algorithms.early_stop import evaluated_at
from parley.coordinator.store import RoundRecord, RunStore
from parley.federation.manifest import Manifest

RECENT = 60
"""Rounds in the timeline."""
PHASES = (
    ("waited", "waiting for contributions"),
    ("agreed", "agreeing on the set"),
    ("noised", "adding noise"),
    ("stepped", "stepping the model"),
    ("other", "everything else"),
)


@lru_cache(maxsize=256)
def manifest_of(canonical: bytes) -> Manifest:
    """Parsed once, however often a page or a screen is drawn."""
    return Manifest.from_canonical(canonical)


@dataclass
class History:
    """One run's rounds so far, and sums over them."""

    records: list[RoundRecord] = field(default_factory=list)
    bytes_down: int = 0
    bytes_up: int = 0
    missed: dict[str, list[int]] = field(default_factory=dict)
    """Party to the rounds it missed."""
    evaluated: list[RoundRecord] = field(default_factory=list)

    def add(self, record: RoundRecord) -> None:
        self.records.append(record)
        self.bytes_down += record.bytes_down
        self.bytes_up += record.bytes_up
        for party in record.missing:
            self.missed.setdefault(party, []).append(record.round)
        if record.evaluation:
            self.evaluated.append(record)

    @property
    def released(self) -> int:
        """How many rounds were opened."""
        return self.records[-1].round + 1 if self.records else 0

    def pace(self) -> float | None:
        """Seconds from round to round lately, pauses left out."""
        recent = self.records[-RECENT:]
        gaps = [after.at - before.at for before, after in pairwise(recent)]
        return median(gaps) if gaps else (recent[0].seconds if recent else None)

    def seconds_left(self, releases: int) -> float | None:
        """Of the rounds still to come, as those lately took: what tries the public set is slower than what does not.

        A pause between two rounds is no part of either; what a round needs before it is asked is the usual gap.
        """
        recent = self.records[-RECENT:]
        if not recent:
            return None
        between = [max(0.0, after.at - before.at - after.seconds) for before, after in pairwise(recent)]
        usual = median(between) if between else 0.0
        plain = [record.seconds for record in recent if not record.evaluation]
        tried = [record.seconds for record in self.evaluated[-RECENT:]]
        to_come = range(self.released, releases)
        trials = sum(evaluated_at(index, releases) for index in to_come)
        left = usual * len(to_come) + trials * fmean(tried or plain)
        return left + (len(to_come) - trials) * fmean(plain or tried)

    def phases(self, record: RoundRecord) -> tuple[float, ...]:
        """Seconds in the order of PHASES; they add up to the round."""
        known = [record.waited_seconds, record.agreed_seconds, record.noised_seconds, record.stepped_seconds]
        return (*known, max(0.0, record.seconds - sum(known)))


class Histories:
    """Of every run in a store."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._held: dict[bytes, History] = {}

    def of(self, digest: bytes) -> History:
        """Up to date."""
        held = self._held.setdefault(digest, History())
        for record in self._store.history(digest, held.released):
            held.add(record)
        return held

    def warm(self) -> None:
        """Read everything once."""
        for row in self._store.runs():
            self.of(row.digest)
