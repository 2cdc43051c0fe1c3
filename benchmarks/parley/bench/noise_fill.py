"""A server's end of `parley bench noise --round-trip`: a pool as an aggregator has it, drained as fast as it fills."""

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parley.aggregator.pool import NoisePool
from parley.aggregator.workers import Demand, NoiseSession, Staff
from parley.bench.noise_turns import open_session
from parley.mpc.channel import Channel, Link
from parley.mpc.errors import PeerError
from parley.mpc.parts import NoiseParts
from parley.mpc.tables import Tables

CAPACITY_BATCHES = 64
WARM_BATCHES = 2
"""Of each worker, before anything is measured."""
PATIENCE_SECONDS = 120.0


def fill(
    role: int, tables: Tables, parts: NoiseParts, folder: Path, lanes: int, connect: Callable[[], Link], staff: Staff,
    seconds: float, ended_together: Callable[[], None],
) -> dict[str, Any]:  # fmt: skip
    """Samples a second, from a batch's end to a later one's, `seconds` after it at least."""

    def begin(channel: Channel, _: Demand) -> NoiseSession:
        session = open_session(channel, role, tables, parts, folder)
        if session is None:
            raise PeerError("nothing is sampled together")
        return session

    demand = Demand(lanes, parts.audit_rate or None)
    pool = NoisePool(
        connect, role, tables, CAPACITY_BATCHES * lanes, lanes, begin=begin, demand=lambda: demand, staff=staff
    )

    def drain() -> None:
        epoch, start = pool.position(PATIENCE_SECONDS)
        for piece in pool.collect(pool.reserve(epoch, start, lanes), PATIENCE_SECONDS):
            piece[:] = 0

    pool.start()
    try:
        drain()
        for _ in range(WARM_BATCHES * pool.level().workers):
            drain()
        started, processor, made = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() < started + seconds or not made:
            drain()
            made += lanes
        elapsed, processor = time.perf_counter() - started, time.process_time() - processor
        level = pool.level()
        ended_together()
    finally:
        pool.stop()
    if level.sessions != 1:
        raise PeerError(f"the noise session broke off while it was measured: {level.last_error}")
    return {
        "made": made,
        "elapsed": elapsed,
        "cpu_seconds": processor,
        "workers": level.workers,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
