"""A run in the terminal: a live view where somebody watches, one line per change where the output goes to a file.

The same facts as on the dashboard: rounds, time left, who is present, missing and late, the estimator against its
noise, the public set, phases, bytes, what the run costs.
"""

import math
import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from parley.cli.console import EXIT_BAD_NEWS, emit_json, progress
from parley.coordinator.errors import CoordinatorError
from parley.coordinator.operator_client import Coordinator, Presence, summary
from parley.coordinator.store import RoundRecord, RunRow, State
from parley.dashboard.figures import troubles
from parley.dashboard.history import PHASES, History, manifest_of
from parley.dashboard.spelling import seconds, size
from parley.federation.manifest import Manifest
from parley.privacy.lying import in_words

LINES = 20
"""Rounds shown, at least, of a run whose output goes to a file."""
PRESENCE_SECONDS = 1.0
SPARKS = " ▁▂▃▄▅▆▇█"
WIDTH = 48
LARGER_IS_BETTER = ("accuracy", "auc")
COLOURS = {State.finished: "green", State.stalled: "yellow", State.stopped: "yellow", State.failed: "red",
           State.refused: "red"}  # fmt: skip


def follow(coordinator: Coordinator, digest: bytes) -> RunRow:
    """Until the run rests; its last state."""
    console = Console(stderr=True)
    return _live(console, coordinator, digest) if console.is_terminal else follow_plainly(console, coordinator, digest)


def follow_to_its_end(coordinator: Coordinator, digest: bytes, json_output: bool) -> None:
    """Exit code 1 where the run rests without a model; whoever interrupts is told that the run does not end by it."""
    try:
        row = follow(coordinator, digest)
    except KeyboardInterrupt:
        known = coordinator.store.get(digest)
        if known is not None and not known.state.resting:
            which = f"{known.run} --node {coordinator.node.folder}"
            progress(f"the run goes on: `parley watch {which}` follows it again, `parley stop {which}` pauses it")
        raise
    if json_output:
        emit_json(summary(row))
    if row.state is not State.finished:
        raise SystemExit(EXIT_BAD_NEWS)


class Follows(Protocol):
    """What a coordinator says of a run, again and again until it rests."""

    def follow(self, digest: bytes) -> Iterable[tuple[RunRow, list[RoundRecord]]]: ...


def follow_plainly(console: Console, coordinator: Follows, digest: bytes) -> RunRow:
    """In lines that stay, for a file."""
    history, row, shown = History(), None, ""
    for row, records in coordinator.follow(digest):
        for record in records:
            history.add(record)
        manifest = manifest_of(row.manifest)
        outcome = f": {escape(row.outcome)}" if row.outcome else ""
        said = [f"[bold]{row.run}[/bold] is {row.state.value}{outcome}"] if row.state.value != shown else []
        shown = row.state.value
        every = max(1, manifest.releases // LINES)
        rounds = [describe(history, manifest)] if any(each.round % every == 0 for each in records) else []
        # A run runs before its rounds, and has ended after them.
        for line in rounds + said if row.state.resting else said + rounds:
            console.print(line, soft_wrap=True)
    assert row is not None
    return row


def _live(console: Console, coordinator: Coordinator, digest: bytes) -> RunRow:
    history, row = History(), coordinator.store.get(digest)
    presence: Presence | None = None
    asked = 0.0
    with Live(console=console, refresh_per_second=8, transient=False) as live:
        for row, records in coordinator.follow(digest):
            for record in records:
                history.add(record)
            if time.monotonic() - asked > PRESENCE_SECONDS:
                asked = time.monotonic()
                try:
                    presence = coordinator.presence(row.run)
                except CoordinatorError:
                    presence = None
            live.update(view(row, manifest_of(row.manifest), history, presence))
    assert row is not None
    return row


def view(row: RunRow, manifest: Manifest, history: History, presence: Presence | None = None) -> RenderableType:
    """One screen."""
    colour = COLOURS.get(row.state, "cyan")
    head = Text.assemble((row.run, "bold"), "  ", (row.state.value, colour), f"  {manifest.algorithm.name}", style="")
    parts: list[RenderableType] = [head]
    if row.outcome:
        parts.append(Text(row.outcome, style=colour))
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", min_width=12)
    facts.add_column()
    for name, value in _facts(row, manifest, history, presence):
        facts.add_row(name, value)
    return Group(*parts, Bar(manifest.releases, 0, history.released, width=WIDTH, color=colour), facts)


def _facts(
    row: RunRow, manifest: Manifest, history: History, presence: Presence | None
) -> list[tuple[str, RenderableType]]:
    pace, left = history.pace(), history.seconds_left(manifest.releases)
    rounds = f"{history.released:,} of {manifest.releases:,}"
    if left is not None and not row.state.resting:
        rounds += f", {seconds(pace)} each, {seconds(left)} left"
    found: list[tuple[str, RenderableType]] = [("rounds", rounds)]
    epsilon = row.claim.get("epsilon")
    if epsilon is not None:
        found.append(("privacy", f"ε {epsilon:.4g} at δ {manifest.guarantee.delta:.3g} for all rounds, charged whole"))
        found.append(("", in_words(row.claim.get("epsilon_if_a_server_lies"), manifest.guarantee.delta)))
    for each in troubles(row, presence):
        when = f"for {seconds(each.seconds)}" if each.lasting else f"{seconds(each.seconds)} ago"
        found.append(("trouble", Text(f"{each.node} {each.words}, {when}", style="red")))
    if not history.records:
        return found
    last = history.records[-1]
    present = ", ".join(last.contributors)
    found.append(("present", f"{len(last.contributors)} of {len(manifest.parties)}: {present}"))
    if last.missing:
        found.append(("missing", Text(", ".join(last.missing), style="yellow")))
    if presence is not None and presence.round >= 0 and row.state is State.running:
        waiting = sorted(set(manifest.parties) - presence.uploaded - presence.absent)
        found.append(("waiting for", ", ".join(waiting) or "nobody"))
    norms = [record.estimator_norm for record in history.records]
    found.append(("estimator", f"{spark(norms)} {last.estimator_norm:.3g} against {last.noise_norm:.3g} of noise"))
    for key in history.evaluated[-1].evaluation if history.evaluated else ():
        found.append((key, on_the_public_set(history, key)))
    phases = zip(PHASES, history.phases(last), strict=True)
    found.append(("last round", ", ".join(f"{key} {seconds(took)}" for (key, _), took in phases)))
    found.append(("bytes", f"{size(history.bytes_up)} of shares up, {size(history.bytes_down)} of models down"))
    return found


def on_the_public_set(history: History, key: str) -> str:
    """A figure over the rounds that were tried: the curve, the newest value, and the best one that there was."""
    tried = [(record.evaluation[key], record.round) for record in history.evaluated if key in record.evaluation]
    finite = [each for each in tried if math.isfinite(each[0])]
    said = f"{spark([value for value, _ in finite])} " if finite else ""
    said += f"{tried[-1][0]:.4g} on the public set"
    if len(finite) < 2:
        return said
    best, at = max(finite) if key in LARGER_IS_BETTER else min(finite)
    return f"{said}, best {best:.4g} after round {at + 1}"


def spark(values: Sequence[float], width: int = 24) -> str:
    """A curve in one line of text: the mean of equal stretches."""
    cells = min(width, len(values))
    means = []
    for place in range(cells):
        stretch = values[place * len(values) // cells : (place + 1) * len(values) // cells]
        means.append(sum(stretch) / len(stretch))
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    return "".join(SPARKS[1 + round((value - low) / span * (len(SPARKS) - 2))] for value in means)


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
