"""A run in the terminal: one line per change where nobody watches, a live view where somebody does."""

import time

from parley.federation.manifest import Manifest
from rich.console import Console
from rich.markup import escape

from coordinator.service.store import RoundRecord, RunRow
from deploy.running import Coordinator

LINES = 20
"""Rounds shown, at least, of a run whose output goes to a file."""


def follow(coordinator: Coordinator, digest: bytes) -> RunRow:
    """Until the run rests; its last state."""
    console = Console(stderr=True)
    row: RunRow | None = None
    shown = ""
    with console.status("waiting for the coordinator") as status:
        for row, records in coordinator.follow(digest):
            manifest = Manifest.from_canonical(row.manifest)
            if row.state.value != shown:
                shown = row.state.value
                console.print(
                    f"[bold]{row.run}[/bold] is {row.state.value}" + (f": {escape(row.outcome)}" if row.outcome else "")
                )
            if records:
                line = describe(row, records[-1], manifest)
                status.update(line)
                every = max(1, manifest.releases // LINES)
                if not console.is_terminal and any(record.round % every == 0 for record in records):
                    console.print(line)
    assert row is not None
    return row


def describe(row: RunRow, record: RoundRecord, manifest: Manifest) -> str:
    """One line: how far, how long still, who is there, what the model is worth."""
    done = record.round + 1
    elapsed = time.time() - row.started if row.started else record.seconds
    left = elapsed / done * (manifest.releases - done)
    missing = f", missing {', '.join(record.missing)}" if record.missing else ""
    quality = ", ".join(f"{name} {value:.4g}" for name, value in record.evaluation.items())
    return (
        f"round {done}/{manifest.releases}, {left:.0f} s left, {len(record.contributors)} parties present{missing}"
        + (f"; public test: {quality}" if quality else "")
    )
