"""How a process that serves notes what happens: a line of its log, an entry of its audit trail. Public facts only."""

from collections.abc import Callable
from typing import Any

from parley.federation import logs
from parley.federation.trail import Trail

from deploy.node_file import Node


def notes(node: Node) -> Callable[..., None]:
    """Where a node's process notes what happens: its log, and its audit trail."""
    name = node.identity.load().name
    node.state.mkdir(mode=0o700, exist_ok=True)
    logs.configure(name.role, name.name, node.state if node.log.file else None, node.log.level)
    log, trail = logs.logger(), Trail.open(node.trail, name)

    def note(event: str, error: Exception | None = None, **fields: Any) -> None:
        trail.append(event, durable=event.startswith("run."), **fields)
        log.warning(event, error=error, **fields) if error else log.info(event, **fields)

    return note
