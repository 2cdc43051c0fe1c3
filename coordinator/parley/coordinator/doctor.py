"""What `parley doctor` asks of a coordinator's store."""

from contextlib import closing

from parley.coordinator.store import RunStore
from parley.node.node_file import CoordinatorNode


def over(node: CoordinatorNode) -> set[bytes]:
    """Digests of runs that are over for good."""
    path = node.state / "runs.sqlite"
    if not path.exists():
        return set()
    with closing(RunStore(path, read_only=True)) as store:
        return {row.digest for row in store.runs() if row.state.final}
