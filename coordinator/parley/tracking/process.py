"""A tracker's process: quiet, of low priority, and gone when the coordinator is.

    python -m parley.tracking.to_mlflow NODE [--beside]
    python -m parley.tracking.to_tensorboard NODE [--beside]

Without --beside it sends what there is and ends. With it, it goes on until its standard input ends.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from parley.coordinator.operator_client import coordinator_node
from parley.federation.extras import missing
from parley.node import logs
from parley.node.track_settings import TrackSettings
from parley.tracking.errors import TrackingError
from parley.tracking.guard import keep_quiet
from parley.tracking.tracker import Sink, Tracker, epsilons, follow

NICENESS = 10
FAILED = 1


def main(kind: str, place_of: Callable[[TrackSettings], Path | str | None], make: Callable[[Path | str], Sink]) -> None:
    """`make` imports its library; whatever goes wrong is one line of the log, and exit code 1."""
    parser = argparse.ArgumentParser(prog=f"python -m parley.tracking.to_{kind}")
    parser.add_argument("node", type=Path)
    parser.add_argument("--beside", action="store_true", help="go on until standard input ends")
    given = parser.parse_args()
    node = coordinator_node(given.node)
    name = node.identity.load().name
    logs.configure(name.role, name.name, None, node.log.level)  # log.jsonl is the coordinator's, which rotates it
    os.nice(NICENESS)
    try:
        place = place_of(node.track)
        if place is None:
            raise TrackingError(f"node.toml has no {kind} under [track]: nothing is tracked there")
        keep_quiet(place)
        follow(Tracker(node.folder, f"{kind} {place}", _made(make, place), epsilons), node.state, given.beside)
    except TrackingError as error:
        logs.logger().error("the tracker failed", kind=kind, error=error)
        raise SystemExit(FAILED) from None


def _made(make: Callable[[Path | str], Sink], place: Path | str) -> Sink:
    try:
        return make(place)
    except ImportError as error:
        raise TrackingError(missing(error) or f"{error.name} cannot be imported: install parley anew") from None
