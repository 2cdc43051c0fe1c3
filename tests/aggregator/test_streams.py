"""The streams of a crew: how many, which is which, and with a server from before only one."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest

from parley.aggregator.grpc_link import WORKERS, Door, GrpcLink, NoiseServicer, begin, dial
from parley.aggregator.pool import NoisePool
from parley.aggregator.streams import HELLO, JOIN, MAGIC, PINGS, TIMES, Crew, agree, join, knows_workers
from parley.aggregator.workers import Staff
from parley.mpc.channel import Channel, MemoryLink
from parley.mpc.errors import FrameError, MpcError, PeerClosedError, PeerTimeoutError
from parley.mpc.session import Session
from parley.mpc.steps import Steps
from parley.mpc.tables import load
from parley.node.authority import identity_uri
from parley.node.connections import KEEPALIVE
from parley.node.credentials import Identity
from parley.v1 import noise_pb2, noise_pb2_grpc
from tests.aggregator.test_pool import take
from tests.support.both_links import dialling
from tests.support.two import outcomes, run_both
from tests.support.until import GIVE_UP_SECONDS, until

LANES = 512


def agreed(wanted: tuple[int, int]) -> list[Any]:
    return outcomes(lambda role, channel: channel.run(agree(role, lambda round_trip: wanted[role])))


@pytest.mark.parametrize(("wanted", "workers"), [((1, 1), 1), ((3, 16), 3), ((16, 2), 2)])
def test_both_come_to_the_smaller_number_and_one_name(wanted: tuple[int, int], workers: int) -> None:
    a, b = agreed(wanted)
    assert a.workers == b.workers == workers
    assert a.id == b.id
    places = [[crew.place(number) for number in range(workers)] for crew in (a, b)]
    assert places[0] == places[1]
    assert len({*places[0]}) == workers
    assert agreed(wanted)[0].id != a.id, "no two crews have one name"
    assert Crew(1).place(0) == b"", "of a server from before"


def test_the_line_is_measured_whoever_was_late() -> None:
    def far(role: int, channel: Channel) -> float:
        send = channel._link.send
        channel._link.send = lambda frame: (time.sleep(0.05), send(frame))[1]  # type: ignore[method-assign, func-returns-value]
        time.sleep(0.3 * role)
        return channel.run(agree(role, lambda round_trip: 1)).round_trip

    a, b = run_both(far)
    assert a == b >= 0.05


@pytest.mark.parametrize("offer", [0, 17, 255])
def test_no_other_number_is_possible(offer: int) -> None:
    a, _ = agreed((16, offer))
    assert isinstance(a, FrameError)
    assert "1 to 16 are possible" in str(a)


def answering(*frames: bytes) -> Steps[None]:
    for frame in frames:
        yield [np.frombuffer(frame, np.uint8)]


@pytest.mark.parametrize(
    ("hello", "message"),
    [
        (HELLO.pack(b"parley.workers.9", 1, bytes(32)), "this version does not know"),
        (HELLO.pack(MAGIC, 0, bytes(32)), "both servers claim role 0"),
    ],
)
def test_hellos_that_no_other_server_says_are_refused(hello: bytes, message: str) -> None:
    def end(role: int, channel: Channel) -> Any:
        return channel.run(agree(0, lambda round_trip: 1) if role == 0 else answering(hello, *[b"\0"] * PINGS))

    a, _ = outcomes(end)
    assert isinstance(a, FrameError)
    assert message in str(a)


def test_the_longest_time_that_can_be_said_is_no_error() -> None:
    """A lie about it gets at most as many workers as this server would have at most."""
    asked: list[float] = []

    def wanted(round_trip: float) -> int:
        asked.append(round_trip)
        return 16

    lie = [HELLO.pack(MAGIC, 1, bytes(32)), *[b"\0"] * PINGS, TIMES.pack(*[(1 << 32) - 1] * PINGS), b"\x10"]
    a, _ = outcomes(lambda role, channel: channel.run(agree(0, wanted) if role == 0 else answering(*lie)))
    assert a.workers == 16
    assert asked[0] > 4294


@pytest.mark.parametrize(
    "said",
    [
        (MAGIC, 0, 3, 1, b"c" * 32),
        (MAGIC, 1, 3, 2, b"c" * 32),
        (MAGIC, 1, 4, 1, b"c" * 32),
        (MAGIC, 1, 3, 1, b"d" * 32),
    ],
    ids=["role", "number", "workers", "crew"],
)
def test_a_stream_of_another_worker_or_crew_is_refused(said: tuple[Any, ...]) -> None:
    crew = Crew(3, b"c" * 32)

    def end(role: int, channel: Channel) -> Any:
        return channel.run(join(0, crew, 1) if role == 0 else answering(JOIN.pack(*said)))

    a, _ = outcomes(end)
    assert isinstance(a, FrameError)
    assert run_both(lambda role, channel: channel.run(join(role, crew, 2))) == [None, None]


def test_sessions_of_two_places_are_two_sessions() -> None:
    """Were the streams swapped behind the first exchange, nothing of either session could be read on the other."""
    tables = load("strips", "standard")

    def end(role: int, channel: Channel) -> Any:
        channel.place = Crew(3, b"c" * 32).place(1 + role)
        return Session(channel, role, tables).samples(16)

    for found in outcomes(end):
        assert isinstance(found, MpcError)
    assert any("another session" in str(found) for found in outcomes(end))


# ------------------------------------------------------------ over gRPC


class Before(NoiseServicer):
    """Server B as it was before there were workers: no word of metadata."""

    def _converse(self, on_link: Any, request_iterator: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        done = threading.Event()
        link = GrpcLink(noise_pb2.ConverseResponse, request_iterator, done.set)
        context.add_callback(lambda: link.stop())
        on_link(link)
        yield from link.outgoing()


class Served:
    """B's door, and A's connection to it."""

    def __init__(self, identities: tuple[Any, Identity, Identity], kind: type[NoiseServicer]) -> None:
        _, a, b = identities
        self.door = Door()
        self.server = grpc.server(futures.ThreadPoolExecutor(8), options=KEEPALIVE)
        noise_pb2_grpc.add_NoiseServiceServicer_to_server(kind(self.door.put, {identity_uri("a")}), self.server)
        credentials = grpc.ssl_server_credentials([(b.key, b.certificate)], b.authority, require_client_auth=True)
        port = self.server.add_secure_port("127.0.0.1:0", credentials)
        self.server.start()
        self.channel = dialling(f"127.0.0.1:{port}", a)

    def close(self) -> None:
        self.door.close()
        self.channel.close()
        self.server.stop(None)


@pytest.fixture
def served(identities: Any) -> Iterator[Callable[[type[NoiseServicer]], Served]]:
    made: list[Served] = []

    def serve(kind: type[NoiseServicer]) -> Served:
        made.append(Served(identities, kind))
        return made[-1]

    yield serve
    for each in made:
        each.close()


def dialled_before(channel: grpc.Channel) -> GrpcLink:
    """As server A did."""
    return begin(noise_pb2_grpc.NoiseServiceStub(channel).Converse, noise_pb2.ConverseRequest)


@pytest.mark.parametrize(("a_knows", "b_knows"), [(True, True), (False, True), (True, False)])
def test_with_a_server_from_before_there_is_one_worker(
    served: Callable[[type[NoiseServicer]], Served], a_knows: bool, b_knows: bool
) -> None:
    ends, tables = served(NoiseServicer if b_knows else Before), load("strips", "standard")

    def connect() -> GrpcLink:
        return dial(ends.channel) if a_knows else dialled_before(ends.channel)

    def further(number: int, over: Callable[[], bool]) -> GrpcLink:
        return dial(ends.channel, worker=number)

    staffs = (Staff(3, further) if a_knows else None, Staff(3, ends.door.take_worker) if b_knows else None)
    pools = [
        NoisePool(each, role, tables, 8 * LANES, LANES, staff=staffs[role])
        for role, each in enumerate((connect, ends.door.take))
    ]
    for pool in pools:
        pool.start()
    try:
        epoch, start = pools[0].position(GIVE_UP_SECONDS)
        assert pools[1].position(GIVE_UP_SECONDS) == (epoch, start)
        a, b = (take(pool, epoch, start, 3 * LANES) for pool in pools)
        assert 0.85 < ((a + b).view(np.int64) / 2.0**41).std() < 1.15  # 1,536 samples: 8 deviations
        both = a_knows and b_knows
        assert [pool.level().workers for pool in pools] == ([3, 3] if both else [1, 1])
    finally:
        ends.door.close()
        for pool in pools:
            pool.stop()


@pytest.mark.parametrize("said", ["16", "-1", "x", "01", ""])
def test_a_stream_that_names_no_worker_is_refused(served: Callable[[type[NoiseServicer]], Served], said: str) -> None:
    stub = noise_pb2_grpc.NoiseServiceStub(served(NoiseServicer).channel)
    with pytest.raises(grpc.RpcError, match="names no worker"):
        next(stub.Converse(iter(()), metadata=((WORKERS, said),), timeout=GIVE_UP_SECONDS))


def test_the_newest_stream_of_a_worker_is_kept_and_the_older_one_closed(
    served: Callable[[type[NoiseServicer]], Served],
) -> None:
    ends = served(NoiseServicer)
    older = dial(ends.channel, worker=2)
    until(lambda: ends.door._further)
    kept = ends.door._further[2]
    newer = dial(ends.channel, worker=2)
    until(lambda: ends.door._further.get(2) is not kept)
    until(lambda: older.over)
    newer.send(b"newer")
    link = ends.door.take_worker(2, lambda: False)
    assert link.receive(time.monotonic() + GIVE_UP_SECONDS) == b"newer"
    assert ends.door._further == {}
    with pytest.raises(PeerClosedError, match="worker 2 did not come"):
        ends.door.take_worker(2, lambda: True)
    for each in (older, newer, link):
        each.close()


def test_a_server_that_does_not_say_is_a_time_out_and_no_other_link_knows_workers(
    served: Callable[[type[NoiseServicer]], Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = dial(served(Before).channel)
    with pytest.raises(PeerTimeoutError):
        knows_workers(silent, time.monotonic() + 0.2)
    silent.close()
    assert not knows_workers(MemoryLink(), time.monotonic())
