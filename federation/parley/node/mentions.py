"""Event ids that travel beside calls, so that each node can write down which event of its peer it saw.

    stub.Upload(request, metadata=mentions.of(trail.append("round.answered", run=run, round=3)))       # the caller
    trail.append("upload.stored", run=run, peer=peer, peer_event=mentions.by(peer, context.invocation_metadata()))

A server answers the same way, in trailing metadata. An id that does not name the peer which TLS has authenticated is
no mention: nobody can put words into another's trail. A call without one is as good.
"""

from collections.abc import Iterable
from typing import Any

from parley.federation.names import NodeName
from parley.node.facts import event_id

KEY = "parley-event"


def of(event: str) -> tuple[tuple[str, str], ...]:
    """Metadata that mentions an event of this node."""
    return ((KEY, event),)


def by(peer: NodeName, metadata: Iterable[Any] | None) -> str | None:
    """The event of `peer` that it mentions, if it mentions one."""
    for key, value in metadata or ():
        if key == KEY:
            found = event_id(value)
            return found if found is not None and found.startswith(f"{peer.role}/{peer.name}/") else None
    return None
