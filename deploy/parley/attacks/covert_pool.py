"""Noise under audit in a pool, from which a sum is opened: and a server that says it is further on than it is."""

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from parley.aggregator.opening import Aggregator
from parley.aggregator.opening_store import OpeningStore
from parley.aggregator.pool import NoisePool
from parley.attacks.covert_server import Found, Server, Task
from parley.attacks.kinds import Guard, removed
from parley.attacks.lying_server import uploads
from parley.attacks.servers import LATTICE, request
from parley.mpc.channel import Channel
from parley.mpc.covert import CovertSession
from parley.mpc.errors import MpcError, PeerCheatedError
from parley.mpc.steps import Steps
from parley.mpc.tables import Tables

FURTHER = 3
"""Batches."""
POSITION = "position"
"""The lie."""


def opened(server: Server, task: Task) -> dict[str, Any]:
    """One sum over both servers' pools; what this one has of it, or why not. Later sessions of the pools are not waited
    for: the next task is for other processes.
    """
    found, errors = Found(server.folder, server.role), list[PeerCheatedError]()
    signing = found.counted(server.signing)

    def begin(channel: Channel, role: int, tables: Tables) -> CovertSession:
        return CovertSession(channel, role, tables, signing, Fraction(1, task.audits), found.keep)

    with (
        removed(Guard("begin", "parley.aggregator.pool:Session", begin)),
        tempfile.TemporaryDirectory(dir=server.folder) as folder,
    ):
        pool = NoisePool(
            lambda: server.link(False), server.role, server.tables, 4 * task.lanes, task.lanes, task.deadline,
            errors.append,
        )  # fmt: skip
        store = OpeningStore(Path(folder) / "openings.sqlite")
        try:
            pool.start()
            pool.position(task.deadline)  # it has its stream: the next one is the opening's
            if task.lie == POSITION and task.liar == server.role:
                _jump(pool, FURTHER * task.lanes)
            channel = Channel(server.link(False), task.deadline)
            aggregator = Aggregator(server.role, pool, store, task.deadline)
            contributions = uploads(LATTICE, {party: np.ones(8) for party in ("a", "b")})[server.role]
            try:
                share = aggregator.open(channel, request(), contributions).share
                channel.run(_end_together())
            finally:
                channel.close()
            found.kept.append(np.frombuffer(share, "<u8"))
        except MpcError as error:
            found.error = error
        finally:
            pool.stop()
            store.close()
    return {**found.told(), "pool": [type(error).__name__ for error in errors], "processor": 0.0}


def _end_together() -> Steps[None]:
    """Who stopped its pool first would take the other one's samples with the session."""
    yield [np.zeros(1, np.uint8)]


def _jump(pool: NoisePool, samples: int) -> None:
    """This server's pool says a later place than it is at, and takes any."""
    position = pool.position

    def later(timeout_seconds: float) -> tuple[bytes, int]:
        epoch, at = position(timeout_seconds)
        return epoch, at + samples

    vars(pool).update(position=later, _require_near=lambda epoch, start: None)
