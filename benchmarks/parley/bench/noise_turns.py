"""The ways of making noise, taking turns batch by batch on the same two servers: a server's end of the comparison.

What one way costs over another is a ratio of processor times. Taken in turns, batch by batch, both meet the same
machine: whatever else runs there slows both.
"""

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parley.mpc.channel import Channel, Link
from parley.mpc.clear import OwnNoise
from parley.mpc.covert import COVERT_LABEL, CovertSession, Signing
from parley.mpc.kernels import Words
from parley.mpc.parts import NoiseParts
from parley.mpc.session import Session
from parley.mpc.tables import Tables
from parley.node import signatures
from parley.node.collector import KEPT_FOR_AUDITS, keep_freed
from parley.node.credentials import Identity

NAMES = ("aggregator-a", "aggregator-b")
AUDIT_THREAD = "noise-audit"


def signing_in(folder: Path, role: int) -> Signing:
    """As a node signs and believes: with its key, and the other one's that it knows."""
    mine, theirs = (Identity.load(folder / NAMES[each]) for each in (role, 1 - role))
    return Signing(
        key=mine.pin,
        sign=lambda statement: signatures.sign(mine, COVERT_LABEL, statement),
        peer_keys=lambda: (theirs.pin,),
        verify=lambda key, statement, signature: signatures.signed_by(key, COVERT_LABEL, statement, signature),
        context=hashlib.sha256(b"parley bench").digest(),
    )


def open_session(
    channel: Channel, role: int, tables: Tables, parts: NoiseParts, folder: Path, k: int = 4
) -> Session | CovertSession | None:
    """The session that a way of making noise needs; None where nothing is sampled together."""
    if not parts.joint:
        return None
    if parts.security == "semi-honest":
        return Session(channel, role, tables, k=k)

    def refuse(evidence: object) -> None:
        raise RuntimeError("an honest server was accused")

    keep_freed(KEPT_FOR_AUDITS)  # as an aggregator does
    return CovertSession(channel, role, tables, signing_in(folder, role), parts.audit_rate, refuse)


def hear_audits() -> None:
    """Wait for all replays: they belong to the batches before."""
    for thread in threading.enumerate():
        if thread.name == AUDIT_THREAD:
            thread.join()


@dataclass
class Way:
    """One way of making noise, its session open."""

    parts: NoiseParts
    channel: Channel
    session: Session | CovertSession | None

    @property
    def audits(self) -> int:
        return self.session.audits_made if isinstance(self.session, CovertSession) else 0

    def samples(self, lanes: int) -> Words:
        return np.zeros(lanes, np.uint64) if self.session is None else self.session.samples(lanes)


class Turns:
    """All ways that were asked for so far."""

    def __init__(self, role: int, tables: Tables, folder: Path, link: Callable[[], Link], own: OwnNoise) -> None:
        self._role, self._tables, self._folder, self._link, self._own = role, tables, folder, link, own
        self._ways: dict[NoiseParts, Way] = {}

    def batch(self, parts: NoiseParts, lanes: int) -> dict[str, Any]:
        """One batch: what it made, and what it cost this server."""
        way = self._ways.get(parts) or self._opened(parts)
        traffic, audits = way.channel.traffic, way.audits
        sent, exchanges, started = traffic.bytes_sent, traffic.exchanges, time.process_time()
        noise = way.samples(lanes)
        if parts.shift is not None:
            self._own.add(noise, parts.shift)
        hear_audits()
        return {
            "cpu_seconds": time.process_time() - started,
            "made": len(noise),
            "sent": traffic.bytes_sent - sent,
            "exchanges": traffic.exchanges - exchanges,
            "audits": way.audits - audits,
        }

    def _opened(self, parts: NoiseParts) -> Way:
        channel = Channel(self._link())
        way = Way(parts, channel, open_session(channel, self._role, self._tables, parts, self._folder))
        self._ways[parts] = way
        return way
