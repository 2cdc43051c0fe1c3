"""A node's metrics: counted from its audit trail, read from its pool, served on loopback if node.toml says where."""

from collections.abc import Callable

from parley.federation.names import NodeName
from parley.node.errors import NodeError
from parley.node.metrics import Registry, counting, serve
from parley.node.node_file import Node
from parley.node.trail import Trail
from parley.v1 import aggregator_pb2


def start(node: Node, name: NodeName) -> Registry | None:
    """None where node.toml asks for none."""
    if node.metrics is None:
        return None
    registry = Registry(name.role.value, name.name)
    Trail.observer = counting(registry)
    try:
        serve(registry, node.metrics.host, node.metrics.port)
    except OSError as error:
        raise NodeError(f"metrics cannot listen on {node.metrics}: {error.strerror}") from None
    return registry


def pool(registry: Registry | None, status: Callable[[], aggregator_pb2.StatusResponse]) -> None:
    """An aggregator's noise pool and what came in by its share port, read whenever somebody asks."""
    if registry is None:
        return
    ready = registry.gauge("parley_pool_samples", "Noise samples ready.")
    most = registry.gauge("parley_pool_capacity_samples", "The most that are held ready.")
    made = registry.counter("parley_pool_produced_samples_total", "Noise samples made.")
    used = registry.counter("parley_pool_used_samples_total", "Noise samples used, each once.")
    lost = registry.counter("parley_pool_lost_samples_total", "Noise samples thrown away.")
    shares = registry.counter("parley_share_bytes_total", "Bytes received on the share port.")

    def refresh() -> None:
        said = status()
        for metric, value in (
            (ready, said.pool_available),
            (most, said.pool_capacity),
            (made, said.pool_produced),
            (used, said.pool_used),
            (lost, said.pool_lost),
            (shares, said.share_bytes),
        ):
            metric.set(value)

    registry.before_reading(refresh)
