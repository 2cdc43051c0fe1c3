"""Whether the coordinator and both aggregators can be reached from here, by this node's own key: asked on request."""

from concurrent.futures import ThreadPoolExecutor

from parley.errors import ParleyError
from parley.federation.names import NodeName, Role
from parley.node.node_file import Address
from parley.node.reachability import UnreachableError, probe
from parley.page.folder import Folder


def ask(folder: Folder) -> dict[str, tuple[str, str]]:
    """By name: what came of it, and its tone. Nothing of parley's is sent, as with `parley doctor`."""
    node, federation = folder.node, folder.name.federation
    peers = {NodeName(federation, Role.coordinator, node.coordinator_name): node.coordinator}
    peers |= {NodeName(federation, Role.aggregator, name): address for name, address in node.aggregators.items()}
    with ThreadPoolExecutor(max_workers=8) as threads:
        said = threads.map(lambda each: _asked(folder, *each), peers.items())
        return {name.name: words for name, words in zip(peers, said, strict=True)}


def _asked(folder: Folder, name: NodeName, address: Address) -> tuple[str, str]:
    try:
        reached = probe(address, folder.node.identity, name)
    except UnreachableError as error:
        return f"{error.problem}. {error.fix}", "bad"
    except (ParleyError, OSError) as error:
        return str(error)[:500], "bad"
    return f"answers, with the key that is pinned ({reached.milliseconds:.0f} ms)", "good"
