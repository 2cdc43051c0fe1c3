"""What `parley doctor` says of the list of revoked certificates; whether there is a newer one, no node can tell."""

import shlex
from collections.abc import Iterator

from parley.node.credentials import Identity
from parley.node.doctor import FAILED, OK, WARNING, Finding
from parley.node.node_file import AnyNode
from parley.node.revocation import LONG_DAYS


def examine_revoked(node: AnyNode, identity: Identity) -> Iterator[Finding]:
    """Nothing where the authority has revoked nothing that this node was told of."""
    check, held = "revoked", node.identity.revoked()
    if held is None:
        return
    folder = shlex.quote(str(node.identity.path))
    text = f"list {held.number}, {held.age_days:.0f} days old, {len(held.entries)} certificates"
    if identity.pin in held.keys:
        fix = f"`parley node rotate --folder {folder}`, if the authority is to admit it again"
        yield Finding(check, FAILED, f"{text}, this node's own among them: no peer talks to it", fix)
    elif held.age_days > LONG_DAYS:
        fix = f"ask the authority for its newest, `parley node revoked FILE --folder {folder}`"
        yield Finding(check, WARNING, f"{text}: the coordinator may keep newer ones from this node", fix)
    else:
        yield Finding(check, OK, text)
