"""From the coordinator's store to one tracker: reads, sends what is new, remembers how far it came.

Runs in a process of its own (`parley.node.page_process` keeps it). It reads the store as the dashboard does, writes
nothing there, and whatever goes wrong here ends this process and no run: the reason is in the log, the next process
goes on where this one was. A number may come twice after a crash, never not at all.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from parley.coordinator.result import model_path
from parley.coordinator.store import RunRow, RunStore
from parley.errors import ParleyError
from parley.federation.manifest import Manifest
from parley.learning.model_archive import card_path, read_archive
from parley.privacy.durable import replace_durably
from parley.tracking.errors import TrackingError
from parley.tracking.released import EPSILON, Point, parameters, points

POLL_SECONDS = 1.0
CHUNK = 100
"""Rounds between two notes of how far it came."""
COSTS = "parley.dashboard.costs"
"""Where ε after k rounds is computed: a short-lived process, by its name."""
MOST_READINGS = 32
PATIENCE_SECONDS = 600.0


class Sink(Protocol):
    """MLflow or TensorBoard."""

    def begin(self, row: RunRow, told: dict[str, str]) -> str:
        """A run, new or begun before; what it is called there."""
        ...

    def log(self, run: str, found: Sequence[Point]) -> None: ...

    def end(self, run: str, row: RunRow, files: Sequence[Path]) -> None:
        """It rests for good. `files` are the model and its card, where there are any."""
        ...


@dataclass
class Progress:
    """How far one run has been sent."""

    called: str = ""
    """What the tracker calls it."""
    sent: int = 0
    """Rounds."""
    readings: dict[str, float] | None = None
    """Rounds to ε, once it was asked for; empty where no accountant has an answer."""
    told: list[int] = field(default_factory=list)
    """Of those, the rounds that were sent."""
    ended: bool = False


class Tracker:
    """Sends one coordinator's runs to one sink."""

    def __init__(
        self, folder: Path, place: str, sink: Sink, costs: Callable[[Manifest, Sequence[int]], dict[str, float]]
    ) -> None:
        """`folder` is the coordinator's; `place` says where the sink is, for what was sent is remembered by place."""
        self._folder, self._sink, self._costs = folder, sink, costs
        self._file = folder / "state" / "tracked" / f"{sha256(place.encode()).hexdigest()[:16]}.json"
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._progress = _read(self._file)

    def once(self, store: RunStore) -> list[str]:
        """Send what is new of every run; what went wrong, run by run."""
        wrong = []
        for row in store.runs():
            held = self._progress.setdefault(row.digest.hex(), Progress())
            if held.ended or row.started is None:
                continue
            try:
                self._send(store, row, held)
            except (TrackingError, OSError) as error:
                wrong.append(f"run {row.run}: {error}")
        return wrong

    def _send(self, store: RunStore, row: RunRow, held: Progress) -> None:
        manifest = Manifest.from_canonical(row.manifest)
        if not held.called:
            held.called = self._sink.begin(row, parameters(row, manifest))
            self._keep()
        records = store.history(row.digest, held.sent)
        for first in range(0, len(records), CHUNK):
            chunk = records[first : first + CHUNK]
            self._sink.log(held.called, [each for record in chunk for each in points(record)])
            held.sent = chunk[-1].round + 1
            self._keep()
        self._send_readings(store, row, manifest, held)
        if row.state.final:
            self._sink.end(held.called, row, self._files(row))
            held.ended = True
            self._keep()

    def _send_readings(self, store: RunStore, row: RunRow, manifest: Manifest, held: Progress) -> None:
        """ε by the run's accountant, where it was read; the last reading is of exactly the rounds made."""
        if not held.sent:
            return
        if held.readings is None:
            held.readings = {str(count): value for count, value in self._read(manifest, grid(manifest.releases))}
            self._keep()
        if row.state.final and held.readings and str(held.sent) not in held.readings:
            held.readings |= {str(count): value for count, value in self._read(manifest, [held.sent])}
        due = sorted(int(each) for each in held.readings if int(each) <= held.sent and int(each) not in held.told)
        if due:
            times = {record.round + 1: record.at for record in store.history(row.digest)}
            found = [Point(EPSILON, held.readings[str(step)], step, times[step]) for step in due if step in times]
            self._sink.log(held.called, found)
            held.told += due
            self._keep()

    def _read(self, manifest: Manifest, counts: Sequence[int]) -> list[tuple[int, float]]:
        return [(int(count), value) for count, value in self._costs(manifest, counts).items()]

    def _files(self, row: RunRow) -> list[Path]:
        """Read once more before they leave: only a whole model file with its own card goes out."""
        path = model_path(self._folder, row.run)
        if not path.is_file():
            return []
        try:
            read_archive(path)
        except ParleyError as error:
            raise TrackingError(f"the model file is not sent: {error}") from None
        return [path, *(each for each in [card_path(path)] if each.is_file())]

    def _keep(self) -> None:
        body = {digest: asdict(each) for digest, each in self._progress.items()}
        replace_durably(self._file, json.dumps(body))


def _read(path: Path) -> dict[str, Progress]:
    """Nothing where nothing was sent yet, or where somebody has altered the file: then all is sent again."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        return {digest: Progress(**each) for digest, each in json.loads(path.read_text()).items()}
    return {}


def grid(releases: int) -> list[int]:
    """Numbers of rounds to read ε at: evenly, the last one included."""
    return sorted({max(1, releases * place // MOST_READINGS) for place in range(1, MOST_READINGS + 1)})


def epsilons(manifest: Manifest, counts: Sequence[int]) -> dict[str, float]:
    """ε after so many rounds by the run's own accountant, from a process that ends; empty where it has no answer."""
    asked = json.dumps({"manifest": manifest.canonical.decode("ascii"), "counts": list(counts)})
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", COSTS],
            input=asked, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
        answer: dict[str, Any] = json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired):
        return {}
    values = answer.get(manifest.guarantee.accountant) or []
    return {str(count): value for count, value in zip(counts, values, strict=False)}


def follow(tracker: Tracker, state: Path, until_input_ends: bool) -> None:
    """Until standard input ends, which the coordinator holds; a TrackingError as soon as something went wrong."""
    store: RunStore | None = None
    try:
        while True:
            if store is None and (state / "runs.sqlite").exists():
                store = RunStore(state / "runs.sqlite", read_only=True)
            wrong = tracker.once(store) if store is not None else []
            if wrong:
                raise TrackingError("; ".join(wrong))
            if until_input_ends and _input_ended(POLL_SECONDS):
                return
            if not until_input_ends:
                return
    finally:
        if store is not None:
            store.close()


def _input_ended(seconds: float) -> bool:
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and not os.read(sys.stdin.fileno(), 1)
