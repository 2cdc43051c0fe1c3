"""Streams between the two servers: one carries many conversations, and none after one that did not end well."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest

from parley.aggregator import peer
from parley.aggregator.grpc_link import begin
from parley.aggregator.peer import UNREADY, AnsweringLink, Dialler, Halves, OpeningServicer, PeerShortError
from parley.mpc.channel import Channel
from parley.mpc.errors import PeerError
from parley.mpc.steps import Steps
from parley.v1 import aggregator_pb2 as wire
from parley.v1 import aggregator_pb2_grpc
from tests.support.until import GIVE_UP_SECONDS

DIGEST = b"m" * 32
SHORT_ROUND, LOST_TRACK = 90, 91


def greet(word: bytes) -> Steps[bytes]:
    (answer,) = yield [np.frombuffer(word, np.uint8)]
    return answer.tobytes()


class Answering:
    """Server B: an event loop in a thread, and what was said to it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.heard: list[tuple[int, bool, list[str]]] = []
        self.links: list[Any] = []
        """Each stream once."""
        self.server = grpc.server(futures.ThreadPoolExecutor(4))
        aggregator_pb2_grpc.add_OpeningServiceServicer_to_server(OpeningServicer(self.loop, self.serve), self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    async def serve(
        self, link: AnsweringLink, digest: bytes, index: int, settling: bool, halves: Halves, gone: asyncio.Event
    ) -> None:
        assert digest == DIGEST
        self.heard.append((index, settling, [half.party for half in halves]))
        if link._link not in self.links:
            self.links.append(link._link)
        if index == SHORT_ROUND:
            link.decline(peer.SHORT, "too few")
            return

        def talk() -> None:
            channel = link.channel()
            assert channel.run(greet(b"a")) == b"b"
            if index != LOST_TRACK:
                channel.finish()
            channel.close()

        await asyncio.get_running_loop().run_in_executor(None, talk)

    def close(self) -> None:
        self.server.stop(0).wait()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def answering() -> Iterator[Answering]:
    made = Answering()
    yield made
    made.close()


@pytest.fixture
def channel(answering: Answering) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{answering.port}") as made:
        yield made


def converse(dialler: Dialler, index: int, halves: Halves = ()) -> None:
    conversation = dialler(DIGEST, index, False, GIVE_UP_SECONDS, halves)
    try:
        assert conversation.run(greet(b"b")) == b"a"
        conversation.finish()
    finally:
        conversation.close()


def test_conversations_follow_each_other_on_one_stream(answering: Answering, channel: grpc.Channel) -> None:
    dialler = Dialler(lambda: channel)
    for index in range(5):
        converse(dialler, index, [wire.RelayedHalf(party=f"p{index}")])
    assert answering.heard == [(index, False, [f"p{index}"]) for index in range(5)]
    assert len(answering.links) == 1


def test_two_at_once_take_two_streams_and_both_are_used_again(answering: Answering, channel: grpc.Channel) -> None:
    dialler = Dialler(lambda: channel)
    first, second = dialler(DIGEST, 0, False, GIVE_UP_SECONDS), dialler(DIGEST, 1, True, GIVE_UP_SECONDS)
    for each in (second, first):
        assert each.run(greet(b"b")) == b"a"
        each.finish()
    for index in range(2, 6):
        converse(dialler, index)
    assert len(answering.links) == 2


@pytest.mark.parametrize("index", [SHORT_ROUND, LOST_TRACK], ids=["declined", "given up"])
def test_after_a_conversation_that_did_not_end_well_the_next_has_another_stream(
    answering: Answering, channel: grpc.Channel, index: int
) -> None:
    dialler = Dialler(lambda: channel)
    converse(dialler, 0)
    failing = dialler(DIGEST, index, False, GIVE_UP_SECONDS)
    if index == SHORT_ROUND:
        with pytest.raises(PeerShortError, match="too few"):
            failing.run(greet(b"b"))
    else:
        failing.run(greet(b"b"))
        failing.close()
    converse(dialler, 1)
    assert [heard[0] for heard in answering.heard] == [0, index, 1]
    assert len(answering.links) == 2


def test_a_stream_that_is_old_or_of_another_connection_is_not_used_again(
    answering: Answering, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{answering.port}") as fresh:
        now = [channel]
        dialler = Dialler(lambda: now[0])
        converse(dialler, 0)
        now[0] = fresh
        converse(dialler, 1)
        assert len(answering.links) == 2
        born = time.monotonic()
        monkeypatch.setattr(peer, "STREAM_SECONDS", 60 + time.monotonic() - born)
        converse(dialler, 2)
        assert len(answering.links) == 3


def test_a_stream_that_ended_between_two_conversations_is_not_used_again(answering: Answering) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{answering.port}") as channel:
        dialler = Dialler(lambda: channel)
        converse(dialler, 0)
        ((_, link, _),) = dialler._idle
        link.close()
        converse(dialler, 1)
        assert len(answering.links) == 2


@pytest.mark.parametrize(
    "first", [b"", b"short", peer.naming(DIGEST, 0, False) + b"\xff\xff"], ids=["", "short", "junk"]
)
def test_a_first_frame_that_names_nothing_ends_the_stream(
    answering: Answering, channel: grpc.Channel, first: bytes
) -> None:
    stub = aggregator_pb2_grpc.OpeningServiceStub(channel)
    link = begin(stub.Converse, wire.OpeningServiceConverseRequest)
    link.send(first or b"\0")
    with pytest.raises(PeerError):
        Channel(link, GIVE_UP_SECONDS).run(greet(b"b"))
    assert not answering.heard


def test_a_declined_verdict_is_the_only_thing_said(answering: Answering, channel: grpc.Channel) -> None:
    sent: list[bytes] = []

    class Line:
        def send(self, frame: Any) -> None:
            sent.append(bytes(frame))

        def receive(self, deadline: float) -> bytes:
            raise AssertionError("nothing is read")

        def close(self) -> None:
            sent.append(b"closed")

    link = AnsweringLink(Line())
    link.decline(UNREADY, "not now")
    assert sent == [UNREADY + b"not now", b"closed"]
    assert not link.given_back
