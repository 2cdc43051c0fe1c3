"""What a node asks of its system."""

import sys

from parley.node.errors import NodeError


def require_linux() -> None:
    """A node's durable writes and its doors are the Linux kernel's: elsewhere a budget could come back after a power
    cut (fsync on a Mac does not reach the disk), and silent connections would not be closed."""
    if sys.platform != "linux":
        raise NodeError(
            "a node runs on Linux only: use a Linux machine or a container (docs/install.md); studies, simulations, "
            "manifests and predictions run here"
        )
