"""`parley health`: whether a node answers, for a container's health check.

parley health /node
"""

from parley.cli.options import NodeFolder


def health(node: NodeFolder) -> None:
    """Ask every listener of a node by the gRPC health service; of a party, check that its loop is still turning.

    Exit code 1: unhealthy.

    Example: parley health hospital-a
    """
    from parley.node.health import main

    main(node)
