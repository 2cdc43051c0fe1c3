"""A run's sums over the institution's cluster, where node.toml has [compute]: who computes is nobody else's affair."""

import threading

from parley.compute.cluster import Cluster
from parley.compute.engine import Named, RayEngine
from parley.compute.errors import ComputeError, EngineStoppedError
from parley.federation.manifest import Manifest
from parley.learning.contributor import Contributor
from parley.node import logs
from parley.party.errors import StoppedError

log = logs.logger()


def over_cluster(
    cluster: Cluster | None, manifest: Manifest, contributor: Contributor, stop: threading.Event
) -> RayEngine | None:
    """The contributor's engine from now on; it hires its workers here if they are there, and before an answer else."""
    if cluster is None:
        return None

    def say(error: ComputeError) -> None:
        log.warning("the cluster is waited for", run=manifest.run, error=error)

    body = {"kind": manifest.model.kind, **manifest.model.options.body}
    named = Named(body, manifest.schema.body, contributor.model.dimension)
    engine = RayEngine(cluster, contributor.records, named, stop, say)
    contributor.engine = engine
    try:
        engine.start()
    except EngineStoppedError:
        engine.close()
        raise StoppedError("this process is ending") from None
    except BaseException:
        engine.close()
        raise
    return engine
