"""A coordinator's node.toml with a table more."""

from pathlib import Path

from parley.node.node_file import CoordinatorNode, read_node

NODE = """role = "coordinator"
listen = "0.0.0.0:7400"
[aggregators]
north = "a:7402"
south = "b:7402"
"""


def node_with(folder: Path, more: str) -> CoordinatorNode:
    """As it is read."""
    (folder / "node.toml").write_text(NODE + more)
    node = read_node(folder)
    assert isinstance(node, CoordinatorNode)
    return node
