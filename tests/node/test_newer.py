"""Messages with fields that this release does not know are refused by name, whole, and by nothing but the message."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from parley.aggregator.grpc_link import NoiseServicer, begin
from parley.mpc.errors import PeerError
from parley.node import signatures
from parley.node.authorization import AioAuthorization, Authorization, Authorizer
from parley.node.newer import MOST_NAMED, NO_MESSAGE, UPGRADE, NewerError, StrictChannel, known, strict
from parley.node.refusals import RefusedCallError, refusal_in
from parley.node.statements import STATEMENT
from parley.node.transport import open_aio_channel, open_channel, refusal_of, server_credentials
from parley.party.errors import AskAgainError
from parley.v1 import aggregator_pb2, aggregator_pb2_grpc, common_pb2, coordinator_pb2, noise_pb2, noise_pb2_grpc
from tests.support.histories import Word, World
from tests.support.served import ALLOWED, AUTHORITY, SERVER
from tests.support.until import GIVE_UP_SECONDS

MORE = b"\xc0\x3e\x07"
"""Field 1000, a number."""
OTHER = b"\xca\x3e\x01x"
"""Field 1001, a byte."""


def refusal(parse: Any, data: bytes) -> str:
    with pytest.raises(NewerError) as error:
        strict(parse)(data)
    return error.value.message


def test_unknown_fields_are_named_at_every_depth() -> None:
    parse = coordinator_pb2.NextRoundResponse.FromString
    assert refusal(parse, MORE).endswith("(NextRoundResponse.1000)")
    point = coordinator_pb2.Point(data=b"d" * 5000).SerializeToString() + OTHER
    asked = coordinator_pb2.Round.FromString(b"").SerializeToString() + b"\x22" + _length(len(point)) + point
    assert refusal(parse, b"\x12" + _length(len(asked)) + asked).endswith("(Point.1001)")
    word = b"\x0a\x01b" + MORE
    assert refusal(parse, b"\xc2\x07" + _length(len(word)) + word).endswith("(SignedWord.1000)")
    assert refusal(parse, b"\x0d\x00\x00\x00\x00").endswith("(NextRoundResponse.1)")  # a known number of another kind


def _length(size: int) -> bytes:
    return bytes([size & 127 | 128, size >> 7]) if size > 127 else bytes([size])


def test_messages_of_this_release_pass_whatever_they_hold() -> None:
    for message in (
        aggregator_pb2.OpenResponse(waited_seconds=math.nan, share=b"\xff" * (1 << 20)),
        aggregator_pb2.OpenResponse(state=77),  # type: ignore[arg-type]  # a value, not a field: whoever reads it judges
        coordinator_pb2.NextRoundResponse(round=coordinator_pb2.Round(points=[coordinator_pb2.Point()] * 9)),
        aggregator_pb2.StatusRequest(),
    ):
        assert strict(type(message).FromString)(message.SerializeToString()).SerializeToString() == (
            message.SerializeToString()
        )


def test_the_refusal_is_as_long_for_a_hostile_message() -> None:
    many = b"".join(bytes([0x80 | (tag & 0x78), 0x3E + (tag >> 7), 0]) for tag in range(0, 640, 8))
    found = refusal(aggregator_pb2.UploadRequest.FromString, many)
    assert found.count("UploadRequest.") == MOST_NAMED
    huge = refusal(aggregator_pb2.UploadRequest.FromString, MORE * 1_000_000)
    assert huge.endswith("(one or more)")
    assert "x" * 20 not in refusal(aggregator_pb2.UploadRequest.FromString, b"\xca\x3e\x7f" + b"x" * 127)


def test_bytes_that_are_no_message_are_another_refusal() -> None:
    with pytest.raises(RefusedCallError) as error:
        strict(aggregator_pb2.UploadRequest.FromString)(b"\xff\xff")
    assert error.value is NO_MESSAGE
    assert strict(bytes)(b"\xff") == b"\xff"


# ------------------------------------------------------------ servers


class Shares(aggregator_pb2_grpc.ShareServiceServicer):
    """Answers anybody; with a field of tomorrow, where it is asked for one."""

    def Recall(self, request: Any, context: Any) -> Any:
        return aggregator_pb2.RecallResponse.FromString(MORE if request.offset else b"")


class AioShares(aggregator_pb2_grpc.ShareServiceServicer):
    async def Recall(self, request: Any, context: Any) -> Any:
        return Shares().Recall(request, context)


RECALL = "/parley.v1.ShareService/Recall"
CONVERSE = "/parley.v1.NoiseService/Converse"


@contextlib.contextmanager
def served(folder: Path, aio: bool, links: Any = None) -> Iterator[int]:
    home = AUTHORITY.install(folder, SERVER)
    rules = Authorizer({RECALL: {ALLOWED}, CONVERSE: {ALLOWED}}, home)
    if not aio:
        server = grpc.server(futures.ThreadPoolExecutor(4), interceptors=[Authorization(rules)])
        aggregator_pb2_grpc.add_ShareServiceServicer_to_server(Shares(), server)
        noise_pb2_grpc.add_NoiseServiceServicer_to_server(NoiseServicer(links, {ALLOWED.uri}), server)
        port = server.add_secure_port("127.0.0.1:0", server_credentials(home))
        server.start()
        yield port
        server.stop(0).wait()
        return
    loop = asyncio.new_event_loop()
    with futures.ThreadPoolExecutor(1) as thread:
        thread.submit(loop.run_forever)

        async def start() -> tuple[Any, int]:
            made = grpc.aio.server(interceptors=[AioAuthorization(rules)])
            aggregator_pb2_grpc.add_ShareServiceServicer_to_server(AioShares(), made)
            port = made.add_secure_port("127.0.0.1:0", server_credentials(home))
            await made.start()
            return made, port

        running, port = asyncio.run_coroutine_threadsafe(start(), loop).result(GIVE_UP_SECONDS)
        yield port
        asyncio.run_coroutine_threadsafe(running.stop(0), loop).result(GIVE_UP_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
    loop.close()


@pytest.mark.parametrize("aio", [False, True])
def test_requests_and_answers_are_refused_by_name_over_the_wire(tmp_path: Path, aio: bool) -> None:
    identity = AUTHORITY.issue_as(ALLOWED)
    with served(tmp_path / "north", aio) as port, open_channel(f"127.0.0.1:{port}", identity, SERVER) as channel:
        raw: Any = channel.unary_unary(RECALL)
        with pytest.raises(grpc.RpcError) as failed:
            raw(MORE, timeout=GIVE_UP_SECONDS)
        said = refusal_in(failed.value)
        assert said is not None
        assert (said.name, said.hint) == ("newer", UPGRADE)
        assert "parley.v1.RecallRequest has fields that this node does not know (RecallRequest.1000)" in said.message

        stub: Any = aggregator_pb2_grpc.ShareServiceStub(channel)
        asked, fine = aggregator_pb2.RecallRequest(offset=1), aggregator_pb2.RecallRequest()
        assert stub.Recall(fine, timeout=GIVE_UP_SECONDS) == aggregator_pb2.RecallResponse()
        ways: tuple[Callable[[], Any], ...] = (
            lambda: stub.Recall(asked, timeout=GIVE_UP_SECONDS),
            lambda: stub.Recall.with_call(asked, timeout=GIVE_UP_SECONDS),
            lambda: stub.Recall.future(asked, timeout=GIVE_UP_SECONDS).result(),
        )
        for way in ways:
            with pytest.raises(grpc.RpcError) as failed:
                way()
            said = refusal_in(failed.value)
            assert said is not None
            assert (said.name, "(RecallResponse.1000)" in said.message) == ("newer", True)
        assert stub.Recall(fine, timeout=GIVE_UP_SECONDS) == aggregator_pb2.RecallResponse()  # nothing is remembered

        async def aio_call(request: Any) -> Any:
            async with open_aio_channel(f"127.0.0.1:{port}", identity, SERVER) as dialled:
                make: Any = aggregator_pb2_grpc.ShareServiceStub
                made = make(dialled)
                call = made.Recall(request, timeout=GIVE_UP_SECONDS)
                answer = await call
                assert await call.code() is grpc.StatusCode.OK
                return answer

        assert asyncio.run(aio_call(fine)) == aggregator_pb2.RecallResponse()
        with pytest.raises(grpc.aio.AioRpcError) as broken:
            asyncio.run(aio_call(asked))
        said = refusal_in(broken.value)
        assert said is not None
        assert said.name == "newer"


def test_a_stranger_learns_nothing_of_the_messages(tmp_path: Path) -> None:
    """Who may not call is refused for that, whatever it sends."""
    stranger = AUTHORITY.issue_as(type(ALLOWED)("cardio", ALLOWED.role, "stranger"))
    with served(tmp_path / "north", True) as port, open_channel(f"127.0.0.1:{port}", stranger, SERVER) as channel:
        for data in (MORE, b"", b"\xff"):
            call: Any = channel.unary_unary(RECALL)
            with pytest.raises(grpc.RpcError) as failed:
                call(data, timeout=GIVE_UP_SECONDS)
            assert isinstance(failed.value, grpc.Call)
            assert failed.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("side", ["dialling", "answering"])
def test_a_stream_between_servers_ends_with_the_sentence(tmp_path: Path, side: str) -> None:
    taken: futures.Future[Any] = futures.Future()
    identity = AUTHORITY.issue_as(ALLOWED)
    with (
        served(tmp_path / "north", False, taken.set_result) as port,
        open_channel(f"127.0.0.1:{port}", identity, SERVER) as channel,
    ):
        stub = noise_pb2_grpc.NoiseServiceStub(channel)
        dialled = begin(stub.Converse, noise_pb2.ConverseRequest)
        if side == "answering":
            dialled._outbox.put(noise_pb2.ConverseRequest.FromString(b"\x10\x01" + MORE))
            name = "ConverseRequest.1000"
        else:
            dialled.send(b"hello")
            taken.result(GIVE_UP_SECONDS)._outbox.put(noise_pb2.ConverseResponse.FromString(b"\x10\x01" + MORE))
            name = "ConverseResponse.1000"
        with pytest.raises(PeerError, match=name):
            dialled.receive(time.monotonic() + GIVE_UP_SECONDS)
        dialled.close()
        taken.result(GIVE_UP_SECONDS).close()


def test_a_channel_passes_on_all_else(tmp_path: Path) -> None:
    with served(tmp_path / "north", True) as port:
        channel = open_channel(f"127.0.0.1:{port}", AUTHORITY.issue_as(ALLOWED), SERVER)
        assert isinstance(channel, StrictChannel)
        grpc.channel_ready_future(channel).result(GIVE_UP_SECONDS)
        identity = AUTHORITY.issue_as(ALLOWED)
        unknown: Any = channel.unary_unary("/parley.v1.ShareService/OfTomorrow")
        with pytest.raises(grpc.RpcError) as failed:
            unknown(b"", timeout=GIVE_UP_SECONDS)
        assert "of an earlier release: upgrade it first" in str(refusal_of(failed.value, identity, SERVER))
        channel.close()
        with pytest.raises(ValueError, match="closed"):
            channel.unary_unary(RECALL)(b"")


# ------------------------------------------------------------ what is signed


def test_nobody_makes_another_ones_word_newer_for_good(world: World) -> None:
    """A statement that its own server has signed with more fields waits for an upgrade; a relay's additions do too."""
    world.state(mine=False)
    world.state(mine=False)
    first, second = world.handed(1)
    signed = first.body + MORE
    key = world.identities[world.signed.identities[0].name]
    newer = Word(body=signed, signature=signatures.sign(key, STATEMENT, signed))
    with pytest.raises(AskAgainError, match=r"RoundStatement\.1000"):
        world.follow(1, handed=[newer, second])
    assert world.history.blamed == ()
    world.follow(1, handed=[Word(body=signed, signature=first.signature), second])  # not its word: asked for again
    assert world.history.seen.round == 0


def test_a_message_in_memory_is_looked_at_as_it_arrived() -> None:
    message = common_pb2.SignedWord.FromString(MORE)
    with pytest.raises(NewerError):
        known(message, MORE)
    assert known(common_pb2.SignedWord(), b"") == common_pb2.SignedWord()
