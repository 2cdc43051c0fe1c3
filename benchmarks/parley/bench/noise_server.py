"""One of the two servers of `parley bench`: a process of its own, told what to do by JSON lines on standard input.

    python -m parley.bench.noise_server    # started by parley.bench.noise_bench, twice

First line in: the settings (see Settings). Server 1 answers with its port, server 0 is then told it. Every further line
names a task; the answer is one JSON line.
"""

import json
import math
import resource
import socket
import ssl
import sys
import time
from collections.abc import Callable
from concurrent import futures
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from parley.aggregator.opening import Aggregator, Contributions
from parley.aggregator.opening_store import OpeningStore
from parley.aggregator.pool import NoisePool
from parley.aggregator.request import Request
from parley.aggregator.workers import Demand, NoiseSession, Staff
from parley.bench.noise_fill import fill
from parley.bench.noise_turns import NAMES, Turns, hear_audits, open_session
from parley.mpc.channel import Channel, Link
from parley.mpc.clear import OwnNoise
from parley.mpc.errors import PeerError
from parley.mpc.parts import parts_of
from parley.mpc.ring import Lattice
from parley.mpc.sampler import LANES
from parley.mpc.steps import Steps
from parley.mpc.tables import check_precision, load
from parley.node.authority import identity_uri
from parley.node.collector import settle
from parley.node.credentials import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, Identity

MOST_STREAMS = 40
"""Open at once: each takes a thread."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a server needs to know to take part."""

    role: int
    cover: str
    precision: str
    channel: str
    """`socket` or `grpc`, both with mutual TLS on loopback."""
    k: int
    """Of the OT extension: 4, or 1 for the baseline."""
    folder: str
    """Holds the certificates; results are dumped there."""
    security: str = "semi-honest"
    own: float = 0.0
    """What a server adds of its own; parley.mpc.parts."""
    audit: str | None = None
    lanes: int = LANES
    """Of a batch, at most."""


class Connections:
    """Makes links to the other server, over gRPC or sockets."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._identity = Identity.load(Path(settings.folder) / NAMES[settings.role])
        self._port = 0
        self._channels: dict[int, Any] = {}
        """By the port that is dialled."""

    def listen(self) -> int:
        """Server 1: take connections on a port of the kernel's choice."""
        if self._settings.channel == "socket":
            self._listener = socket.create_server(("127.0.0.1", 0))
            self._port = int(self._listener.getsockname()[1])
        else:
            import grpc  # here and below: the socket channel starts faster without it

            from parley.aggregator.grpc_link import Door, NoiseServicer
            from parley.node.connections import KEEPALIVE
            from parley.v1 import noise_pb2_grpc

            self._door = Door()
            self._server = grpc.server(futures.ThreadPoolExecutor(MOST_STREAMS), options=KEEPALIVE)
            noise_pb2_grpc.add_NoiseServiceServicer_to_server(
                NoiseServicer(self._door.put, {identity_uri(NAMES[0])}), self._server
            )
            identity = self._identity
            credentials = grpc.ssl_server_credentials(
                [(identity.key, identity.certificate)], identity.authority, require_client_auth=True
            )
            self._port = self._server.add_secure_port("127.0.0.1:0", credentials)
            self._server.start()
        return self._port

    def dial(self, port: int) -> None:
        """Server 0: where the other one listens."""
        self._port = port

    def link(self) -> Link:
        """The next link: dialled by server 0, accepted by server 1."""
        if self._settings.channel == "socket":
            return self._socket_link()
        if self._settings.role == 1:
            return self._door.take()
        return self._dialled(self._port, 0)

    def by(self, port: int) -> Callable[[], Link]:
        """As `link`, but over that port: where a relay listens."""
        return self.link if self._settings.role else lambda: self._dialled(port, 0)

    def further(self, port: int) -> Callable[[int, Callable[[], bool]], Link]:
        """The streams of a crew's other workers, over gRPC only."""
        if self._settings.role == 1:
            return self._door.take_worker
        return lambda number, over: self._dialled(port, number)

    def _dialled(self, port: int, worker: int) -> Link:
        from parley.aggregator.grpc_link import dial

        if port not in self._channels:
            import grpc

            from parley.node.connections import KEEPALIVE

            identity = self._identity
            credentials = grpc.ssl_channel_credentials(identity.authority, identity.key, identity.certificate)
            self._channels[port] = grpc.secure_channel(f"127.0.0.1:{port}", credentials, options=KEEPALIVE)
        return dial(self._channels[port], worker=worker)

    def _socket_link(self) -> Link:
        from parley.bench.socket_link import SocketLink

        server = self._settings.role == 1
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        folder = Path(self._settings.folder) / NAMES[self._settings.role]
        context.load_cert_chain(folder / CERTIFICATE_FILE, folder / KEY_FILE)
        context.load_verify_locations(folder / AUTHORITY_FILE)
        if server:
            raw, _ = self._listener.accept()
            return SocketLink(context.wrap_socket(raw, server_side=True))
        raw = socket.create_connection(("127.0.0.1", self._port), timeout=10)
        return SocketLink(context.wrap_socket(raw, server_hostname="127.0.0.1"))


def lanes_for(samples: int, acceptance: float, most: int) -> int:
    """Enough lanes for `samples` accepted ones, but for a chance of about 3e-5; at most a full batch."""
    mean = samples / acceptance
    return min(most, math.ceil(mean + 4 * math.sqrt(mean * (1 - acceptance)) + 1))


def start_together() -> Steps[None]:
    """An empty exchange, so that both servers start a measurement together."""
    yield [np.zeros(1, np.uint8)]


def end_together() -> Steps[None]:
    """The same at its end: who stopped its pool first would take the other one's samples with the session."""
    yield from start_together()


class Server:
    """Carries out the tasks of a benchmark."""

    def __init__(self, settings: Settings, connections: Connections) -> None:
        self.settings = settings
        self.tables = load(*check_precision(settings.cover, settings.precision))
        self.connections = connections
        self.parts = parts_of(settings.security, settings.own, settings.audit)
        self.channel = Channel(connections.link())
        folder = Path(settings.folder)
        self.session = open_session(self.channel, settings.role, self.tables, self.parts, folder, settings.k)
        self.own = OwnNoise(self.tables)
        self.turns = Turns(settings.role, self.tables, folder, connections.link, self.own)
        self._over = np.empty(0, np.uint64)
        """Samples beyond those that a repetition asked for: a batch under audit is never cut to what is missing."""
        if self.parts.shift is not None:
            self.own.prepare()
        self._acceptance = {"strips": 0.9947, "rectangle": 0.7305}[settings.cover]

    def produce(self, dimension: int) -> tuple[np.ndarray[Any, np.dtype[np.uint64]], int]:
        """Shares of `dimension` coordinates' noise, batch by batch, and the number of lanes that joint samples took."""
        if self.session is None:
            whole = np.zeros(dimension, np.uint64)
            self.own.add(whole, self.parts.shift or 0)
            return whole, 0
        covert, most = self.parts.security == "covert", self.settings.lanes
        pieces, have, lanes = [self._over], len(self._over), 0
        while have < dimension:
            batch = most if covert else -(-lanes_for(dimension - have, self._acceptance, most) // 16) * 16
            pieces.append(self.session.samples(batch))
            have += len(pieces[-1])
            lanes += batch
        whole = np.concatenate(pieces)
        if covert:
            whole, self._over = whole[:dimension], whole[dimension:].copy()
        if self.parts.shift is not None:
            self.own.add(whole, self.parts.shift)
        return whole, lanes

    def task(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["task"] == "measure":
            return self.measure(order["dimension"], order["seconds"], order["repeat"], order["dump"])
        if order["task"] == "fill":
            return self.fill(order["port"], order["workers"], order["seconds"])
        if order["task"] == "batch":
            return self.turns.batch(parts_of(*order["parts"]), order["lanes"])
        return self.aggregate(order["dimension"], order["parties"])

    def measure(self, dimension: int, seconds: float, repeat: int, dump: bool) -> dict[str, Any]:
        """Repeat for `seconds` (at least `repeat` times); every repetition makes `dimension` samples from nothing."""
        channel = self.channel
        durations, made, lanes, kept = [], 0, 0, []
        channel.run(start_together())
        sent, exchanges, cpu = channel.traffic.bytes_sent, channel.traffic.exchanges, time.process_time()
        started = time.perf_counter()
        while True:
            begun = time.perf_counter()
            samples, used = self.produce(dimension)
            durations.append(time.perf_counter() - begun)
            made += len(samples)
            lanes += used
            if dump:
                kept.append(samples)
            enough = len(durations) >= repeat and time.perf_counter() - started >= seconds
            if self._both(enough):
                break
        hear_audits()
        elapsed = time.perf_counter() - started
        if dump:
            np.save(Path(self.settings.folder) / f"share-{self.settings.role}.npy", np.concatenate(kept))
        return {
            "durations": durations,
            "made": made,
            "lanes": lanes,
            "elapsed": elapsed,
            "sent": channel.traffic.bytes_sent - sent,
            "exchanges": (channel.traffic.exchanges - exchanges) / len(durations) - 1,
            "cpu_seconds": time.process_time() - cpu,
            "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "base_ot_seconds": self.session.base_ot_seconds if self.session else 0.0,
            "finished": time.monotonic(),
        }

    def fill(self, port: int, workers: int | Literal["auto"], seconds: float) -> dict[str, Any]:
        """A pool by so many workers, over that port of the other server's or of a relay's."""
        settings, connections = self.settings, self.connections
        self.channel.run(start_together())
        return fill(
            settings.role, self.tables, self.parts, Path(settings.folder), settings.lanes, connections.by(port),
            Staff(workers, connections.further(port)), seconds, lambda: self.channel.run(end_together()),
        )  # fmt: skip

    def _both(self, mine: bool) -> bool:
        def steps() -> Steps[bool]:
            (theirs,) = yield [np.array([mine], np.uint8)]
            return mine and bool(theirs[0])

        return self.channel.run(steps())

    def aggregate(self, dimension: int, parties: int) -> dict[str, Any]:
        """One secure aggregation: shares in, noise, release share out."""
        role, folder, lanes = self.settings.role, Path(self.settings.folder), self.settings.lanes
        drawn: list[Channel] = []

        def begin(channel: Channel, _: Demand) -> NoiseSession:
            drawn.append(channel)
            session = open_session(channel, role, self.tables, self.parts, folder)
            if session is None:
                raise PeerError("nothing is sampled together")
            return session

        demand = Demand(lanes, self.parts.audit_rate or None)
        pool = NoisePool(
            self.connections.link, role, self.tables, 16 * lanes, lanes, begin=begin, demand=lambda: demand
        )
        channel = Channel(self.connections.link())
        store = OpeningStore(folder / f"openings-{role}.sqlite")
        lattice = Lattice(1.0, 16, self.tables.format.scale_bits, self.parts)
        try:
            shares = np.load(folder / f"contributions-{role}.npy")
            if self.parts.joint:
                pool.start()
                while pool.level().available < dimension:
                    time.sleep(0.001)
            pooled, noise_sent = time.monotonic(), sum(each.traffic.bytes_sent for each in drawn)
            channel.run(start_together())
            started = time.perf_counter()
            contributions = Contributions(dimension)
            for party in range(parties):
                given = shares[party] if role == 0 else shares[party].tobytes()
                contributions.add(f"party-{party}", party.to_bytes(32, "little"), given)
            request = Request(
                run="bench",
                round=0,
                dimension=dimension,
                lattice=lattice,
                minimum_parties=parties,
                most_records=parties,
                clip=float(parties * dimension),
            )
            aggregator = Aggregator(role, pool, store, covert=pool)
            aggregator.own.prepare()
            opened = aggregator.open(channel, request, contributions)
            online = time.perf_counter() - started
            np.save(folder / f"opened-{role}.npy", np.frombuffer(opened.share, "<u8"))
            done = {
                "online": online,
                "pooled": pooled,
                "finished": time.monotonic(),
                "sent": channel.traffic.bytes_sent,
                "noise_sent": noise_sent,
            }
            channel.run(end_together())
            return done
        finally:
            pool.stop()
            store.close()


def main() -> None:
    settings = Settings(**json.loads(sys.stdin.readline()))
    connections = Connections(settings)
    if settings.role == 1:
        print(json.dumps({"port": connections.listen()}), flush=True)
    else:
        connections.dial(json.loads(sys.stdin.readline())["port"])
    settle()  # as an aggregator's process does
    server = Server(settings, connections)
    for line in sys.stdin:
        print(json.dumps(server.task(json.loads(line))), flush=True)


def settings_line(settings: Settings) -> str:
    return json.dumps(asdict(settings))


if __name__ == "__main__":
    main()
