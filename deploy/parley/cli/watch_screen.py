"""A run in the terminal: a live view where somebody watches; where the output goes to a file, `parley.cli.watch_lines`.

The same facts as on the dashboard: rounds, time left, who is present, missing and late, the estimator against its
noise, the public set, phases, bytes, what the run costs.
"""

import math
import shlex
from collections.abc import Sequence

from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from parley.cli.console import EXIT_BAD_NEWS, emit_json, progress
from parley.cli.watch_lines import LOOK_SECONDS, follow_plainly
from parley.coordinator.attendance import Gathering
from parley.coordinator.operator_client import Coordinator, Presence, summary
from parley.coordinator.store import RunRow, State
from parley.dashboard.figures import troubles
from parley.dashboard.history import PHASES, History, manifest_of
from parley.federation.manifest import Manifest
from parley.privacy.lying import in_words
from parley.web.spelling import seconds, size

SPARKS = " ▁▂▃▄▅▆▇█"
WIDTH = 48
LARGER_IS_BETTER = ("accuracy", "auc")
COLOURS = {State.finished: "green", State.stalled: "yellow", State.stopped: "yellow", State.failed: "red",
           State.refused: "red"}  # fmt: skip


def follow(coordinator: Coordinator, digest: bytes) -> RunRow:
    """Until the run rests; its last state."""
    console = Console(stderr=True)
    return _live(console, coordinator, digest) if console.is_terminal else follow_plainly(progress, coordinator, digest)


def follow_to_its_end(coordinator: Coordinator, digest: bytes, json_output: bool) -> None:
    """Exit code 1 where the run rests without a model; whoever interrupts is told that the run does not end by it."""
    try:
        row = follow(coordinator, digest)
    except KeyboardInterrupt:
        known = coordinator.store.get(digest)
        if known is not None and not known.state.resting:
            which = f"{known.run} --node {shlex.quote(str(coordinator.node.folder))}"
            progress("\nthe run goes on. To follow it again, to pause it, to end it for good:")
            for command in (f"watch {which}", f"stop {which}", f"stop {which} --final"):
                progress(f"  parley {command}")
        raise
    if json_output:
        emit_json(summary(row))
    if row.state is not State.finished:
        raise SystemExit(EXIT_BAD_NEWS)


def _live(console: Console, coordinator: Coordinator, digest: bytes) -> RunRow:
    history, row = History(), coordinator.store.get(digest)
    with Live(console=console, refresh_per_second=8, transient=False) as live:
        for row, records in coordinator.follow(digest, every_seconds=LOOK_SECONDS):
            for record in records:
                history.add(record)
            presence = coordinator.presence_if_it_runs(row)
            gathering = coordinator.gathering(row, presence)
            live.update(view(row, manifest_of(row.manifest), history, presence, gathering))
    assert row is not None
    return row


def view(
    row: RunRow,
    manifest: Manifest,
    history: History,
    presence: Presence | None = None,
    gathering: Gathering | None = None,
) -> RenderableType:
    """One screen."""
    colour = COLOURS.get(row.state, "cyan")
    head = Text.assemble((row.run, "bold"), "  ", (row.state.value, colour), f"  {manifest.algorithm.name}", style="")
    parts: list[RenderableType] = [head]
    if row.outcome:
        parts.append(Text(row.outcome, style=colour))
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", min_width=12)
    facts.add_column()
    for name, value in _facts(row, manifest, history, presence, gathering):
        facts.add_row(name, value)
    return Group(*parts, Bar(manifest.releases, 0, history.released, width=WIDTH, color=colour), facts)


def _facts(
    row: RunRow, manifest: Manifest, history: History, presence: Presence | None, gathering: Gathering | None
) -> list[tuple[str, RenderableType]]:
    pace, left = history.pace(), history.seconds_left(manifest.releases)
    rounds = f"{history.released:,} of {manifest.releases:,}"
    wrong = troubles(row, presence)
    if left is not None and not row.state.resting and not any(each.lasting for each in wrong):
        rounds += f", {seconds(pace)} each, {seconds(left)} left"
    found: list[tuple[str, RenderableType]] = [("rounds", rounds)]
    epsilon = row.claim.get("epsilon")
    if epsilon is not None:
        found.append(("privacy", f"ε {epsilon:.4g} at δ {manifest.guarantee.delta:.3g} for all rounds, charged whole"))
        found.append(("", in_words(row.claim.get("epsilon_if_a_server_lies"), manifest.guarantee.delta)))
    if gathering is not None:
        found.append(("gathering", Text(str(gathering), style="yellow" if gathering.waiting else "")))
    if presence is None and not row.state.resting:
        found.append(("trouble", Text("the coordinator does not answer", style="red")))
    for each in wrong:
        when = f"for {seconds(each.seconds)}" if each.lasting else f"{seconds(each.seconds)} ago"
        found.append(("trouble", Text(f"{each.node} {each.words}, {when}", style="red")))
    if presence is not None and presence.round >= 0 and row.state is State.running:
        waiting = sorted(set(manifest.parties) - presence.uploaded - presence.absent)
        found.append(("waiting for", ", ".join(waiting) or "nobody"))
    if not history.records:
        return found
    last = history.records[-1]
    present = ", ".join(last.contributors)
    found.append(("present", f"{len(last.contributors)} of {len(manifest.parties)}: {present}"))
    if last.missing:
        found.append(("missing", Text(", ".join(last.missing), style="yellow")))
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
