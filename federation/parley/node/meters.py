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
    expires = registry.gauge("parley_certificate_expires_seconds", "When it ends, seconds since the epoch.")
    registry.before_reading(lambda: expires.set(node.identity.load().expires.timestamp()))
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
    audited = {
        "available": registry.gauge("parley_covert_pool_samples", "Audited noise samples ready."),
        "capacity": registry.gauge("parley_covert_pool_capacity_samples", "The most that are held ready."),
        "produced": registry.counter("parley_covert_pool_produced_samples_total", "Audited noise samples made."),
        "used": registry.counter("parley_covert_pool_used_samples_total", "Audited samples used, each once."),
        "lost": registry.counter("parley_covert_pool_lost_samples_total", "Audited noise samples thrown away."),
        "audits_made": registry.counter("parley_audits_made_total", "Batches of the other server audited here."),
        "audits_passed": registry.counter("parley_audits_passed_total", "Batches of this server's audited there."),
    }
    evidence = registry.gauge("parley_evidence_pending", "Evidence that waits for this node's operator.")

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
        for name, metric in audited.items():
            metric.set(getattr(said.covert, name))
        evidence.set(len(said.evidence))

    registry.before_reading(refresh)
