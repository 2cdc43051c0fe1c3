"""How a process that serves notes what happens: a line of its log, an entry of its audit trail. Public facts only."""

from collections.abc import Callable, Sequence
from typing import Any

from parley.node import logs
from parley.node.node_file import Node
from parley.node.trail import Trail

DURABLE = ("run.", "evidence.")
"""On the disk before anything follows from it."""


def notes(node: Node) -> Callable[..., str]:
    """Where a node's process notes what happens: its log, and its audit trail; the event's id comes back."""
    name = node.identity.load().name
    node.state.mkdir(mode=0o700, exist_ok=True)
    logs.configure(name.role, name.name, node.state if node.log.file else None, node.log.level)
    log, trail = logs.logger(), Trail.open(node.trail, name)

    def note(event: str, error: Exception | None = None, peer_events: Sequence[str] = (), **fields: Any) -> str:
        heard = list(peer_events) or None
        written = trail.append(event, durable=event.startswith(DURABLE), peer_events=heard, **fields)
        log.warning(event, error=error, **fields) if error else log.info(event, **fields)
        return written

    return note
