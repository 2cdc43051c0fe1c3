"""A run in lines that stay, for a file or a container's log: what the coordinator's log says of it, each with its time.

A line for every change of state, for who is waited for while the run is gathered, for a node that is in trouble and
for the end of that, for a round that is long in coming; and of rounds about twenty, more where they take long.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from parley.coordinator.attendance import Gathering
from parley.coordinator.operator_client import Presence
from parley.coordinator.store import RoundRecord, RunRow, State
from parley.dashboard.figures import TROUBLES, troubles, usual_wait
from parley.dashboard.history import History, manifest_of
from parley.federation.manifest import Manifest
from parley.node.vigil import RESTARTED
from parley.web.spelling import seconds

LINES = 20
"""Rounds shown, at least."""
ROUND_SECONDS = 60.0
"""Without a line, after which the next round has one."""
LATE_SECONDS = 15.0
"""Of a round that is open, at least, before it is said whom it waits for."""
LOOK_SECONDS = 1.0
_LASTING = {words for kind, words in TROUBLES.items() if kind != RESTARTED}


class Follows(Protocol):
    """What a coordinator says of a run, again and again until it rests."""

    def follow(
        self, digest: bytes, since: int = 0, every_seconds: float = ...
    ) -> Iterable[tuple[RunRow, list[RoundRecord]]]: ...

    def presence_if_it_runs(self, row: RunRow) -> Presence | None: ...

    def gathering(self, row: RunRow, presence: Presence | None) -> Gathering | None: ...


def follow_plainly(say: Callable[[str], object], coordinator: Follows, digest: bytes) -> RunRow:
    """Until the run rests; its last state."""
    lines, row = Lines(), None
    for row, records in coordinator.follow(digest, every_seconds=LOOK_SECONDS):
        presence = coordinator.presence_if_it_runs(row)
        for line in lines.of(row, records, presence, coordinator.gathering(row, presence)):
            say(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}")
    assert row is not None
    return row


class Lines:
    """What is new since the last look."""

    def __init__(self) -> None:
        self._history = History()
        self._state = self._gathering = ""
        self._troubles: set[tuple[str, str]] = set()
        self._away = False
        self._late = -1
        """The round of which it was said whom it waits for."""
        self._round_said = time.monotonic()

    def of(
        self, row: RunRow, records: Sequence[RoundRecord], presence: Presence | None, gathering: Gathering | None
    ) -> list[str]:
        for record in records:
            self._history.add(record)
        manifest = manifest_of(row.manifest)
        said, rounds = self._of_state(row), self._of_rounds(records, manifest)
        # A run runs before its rounds, and has ended after them.
        found = rounds + said if row.state.resting else said + rounds
        found += [*self._of_gathering(gathering), *self._of_nodes(row, presence)]
        return found + self._late_round(row, presence)

    def _of_state(self, row: RunRow) -> list[str]:
        if row.state.value == self._state:
            return []
        self._state = row.state.value
        return [f"{row.run} is {row.state.value}{': ' if row.outcome else ''}{row.outcome}"]

    def _of_rounds(self, records: Sequence[RoundRecord], manifest: Manifest) -> list[str]:
        every, now = max(1, manifest.releases // LINES), time.monotonic()
        due = any(each.round % every == 0 or each.round + 1 == manifest.releases for each in records)
        if not records or not (due or now - self._round_said >= ROUND_SECONDS):
            return []
        self._round_said = now
        return [describe(self._history, manifest)]

    def _of_gathering(self, gathering: Gathering | None) -> list[str]:
        said = str(gathering) if gathering is not None and gathering.until else ""
        if not said or said == self._gathering:
            return []
        self._gathering = said
        return [f"gathering: {said}"]

    def _of_nodes(self, row: RunRow, presence: Presence | None) -> list[str]:
        if row.state.resting:
            return []
        if (away := presence is None) != self._away:
            self._away = away
            return ["the coordinator does not answer" if away else "the coordinator answers again"]
        now = {(each.node, each.words): each for each in troubles(row, presence)}
        over = {(node, words) for node, words in self._troubles - now.keys()}
        found = []
        for (node, words), each in now.items():
            if (node, words) not in self._troubles:
                since = f", for {seconds(each.seconds)}" if each.lasting else ""
                found.append(f"{node} {words}{since}")
        still = {node for node, _ in now}
        found += [f"{node} is well again" for node, words in sorted(over) if node not in still and words in _LASTING]
        self._troubles = set(now)
        return found

    def _late_round(self, row: RunRow, presence: Presence | None) -> list[str]:
        if presence is None or row.state is not State.running or presence.round in (-1, self._late):
            return []
        if presence.open_seconds < max(LATE_SECONDS, min(usual_wait(self._history), ROUND_SECONDS)):
            return []
        self._late = presence.round
        manifest = manifest_of(row.manifest)
        missing = sorted(set(manifest.parties) - presence.uploaded)
        who = f"waits for {', '.join(missing)}" if missing else "waits for the aggregators"
        return [f"round {presence.round + 1}/{manifest.releases} {who}, for {seconds(presence.open_seconds)}"]


def describe(history: History, manifest: Manifest) -> str:
    """One line of the newest round: how far, how long still, who is there, what the model was worth when last tried."""
    record, left = history.records[-1], history.seconds_left(manifest.releases)
    time_left = f", {seconds(left)} left" if left else ""
    missing = f", missing {', '.join(record.missing)}" if record.missing else ""
    said = (
        f"round {record.round + 1}/{manifest.releases}{time_left}, {len(record.contributors)} parties present{missing}"
    )
    if not history.evaluated:
        return said
    tried = history.evaluated[-1]
    which = "" if tried is record else f" after round {tried.round + 1}"
    return f"{said}; public test{which}: " + ", ".join(
        f"{name} {value:.4g}" for name, value in tried.evaluation.items()
    )
