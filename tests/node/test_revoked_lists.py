"""Lists of revoked certificates reach their nodes, and what stands with a revoked node ends."""

import asyncio
import datetime as dt
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from parley.federation.errors import RevokedError
from parley.federation.names import NodeName
from parley.node.authority import ThrowAwayAuthority
from parley.node.authorization import AioAuthorization, Authorization, Authorizer
from parley.node.credentials import NodeFolder
from parley.node.revocation import REVOKED_FILE, Entry, keep
from parley.node.revoked_lists import QUIET_SECONDS, RevokedLists, Watch, cut
from parley.node.transport import RenewedChannel, open_channel, refusal_of, server_credentials
from tests.support.pinned import LEAD, NORTH, PARTY, SOUTH
from tests.support.until import GIVE_UP_SECONDS

AT = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
STAND, CALL = "/test.Service/Stand", "/test.Service/Call"


class Standing:
    """A server with a conversation that never ends by itself, and a call that takes for ever."""

    def __init__(self, folder: NodeFolder, aio: bool) -> None:
        self.folder, self.begun, self.ended = folder, threading.Event(), threading.Event()
        everybody = {PARTY, SOUTH, LEAD}
        self.rules = Authorizer({STAND: everybody, CALL: everybody}, folder)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._aio(), self._loop).result() if aio else self._sync()

    def _sync(self) -> int:
        self._over = threading.Event()

        def stand(messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
            context.add_callback(self._over.set)
            self.begun.set()
            yield b"begun"
            self._over.wait(GIVE_UP_SECONDS)
            self.ended.set()

        handler = grpc.method_handlers_generic_handler(
            "test.Service",
            {
                "Stand": grpc.stream_stream_rpc_method_handler(stand),
                "Call": grpc.unary_unary_rpc_method_handler(lambda data, context: data),
            },
        )
        self.server: Any = grpc.server(futures.ThreadPoolExecutor(4), interceptors=[Authorization(self.rules)])
        self.server.add_generic_rpc_handlers((handler,))
        port: int = self.server.add_secure_port("127.0.0.1:0", server_credentials(self.folder))
        self.server.start()
        return port

    async def _aio(self) -> int:
        async def stand(data: bytes, context: Any) -> bytes:
            self.begun.set()
            try:
                await asyncio.sleep(GIVE_UP_SECONDS)
            finally:
                self.ended.set()
            return data

        async def call(data: bytes, context: Any) -> bytes:
            return data

        handler = grpc.method_handlers_generic_handler(
            "test.Service",
            {
                "Stand": grpc.unary_unary_rpc_method_handler(stand),
                "Call": grpc.unary_unary_rpc_method_handler(call),
            },
        )
        self.server = grpc.aio.server(interceptors=[AioAuthorization(self.rules)])
        self.server.add_generic_rpc_handlers((handler,))
        port: int = self.server.add_secure_port("127.0.0.1:0", server_credentials(self.folder))
        await self.server.start()
        return port

    def stop(self) -> None:
        stopped = self.server.stop(0)
        if asyncio.iscoroutine(stopped):
            asyncio.run_coroutine_threadsafe(stopped, self._loop).result(GIVE_UP_SECONDS)
        else:
            stopped.wait()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def asked(channel: Any) -> Any:
    return channel.unary_unary(CALL)(b"x", timeout=GIVE_UP_SECONDS)


@pytest.fixture
def north(tmp_path: Path, issuer: ThrowAwayAuthority) -> NodeFolder:
    for name in (PARTY, SOUTH, LEAD):
        issuer.issue_as(name)
    return issuer.install(tmp_path / "north", NORTH)


def listed(issuer: ThrowAwayAuthority, number: int, *gone: NodeName) -> bytes:
    """By the keys that they have now."""
    entries = [Entry(place + 1, issuer.issue_as(name).pin, AT, "left") for place, name in enumerate(gone)]
    return issuer.authority.revoking(entries, number).data


def revoke(issuer: ThrowAwayAuthority, folder: NodeFolder, number: int, *gone: NodeName) -> None:
    keep(folder.path, listed(issuer, number, *gone), issuer.authority.certificate)


@pytest.mark.parametrize("aio", [False, True])
def test_what_stands_with_a_revoked_caller_ends_and_others_stay(
    north: NodeFolder, issuer: ThrowAwayAuthority, aio: bool
) -> None:
    server = Standing(north, aio)
    identity = issuer.issue_as(PARTY)
    try:
        with open_channel(f"127.0.0.1:{server.port}", identity, NORTH) as channel:
            begun: Any
            if aio:
                make: Any = channel.unary_unary(STAND)
                begun = make.future(b"x", timeout=GIVE_UP_SECONDS)
            else:
                stand: Any = channel.stream_stream(STAND)
                begun = stand(iter([b"x"]), timeout=GIVE_UP_SECONDS)
                assert next(begun) == b"begun"
            assert server.begun.wait(GIVE_UP_SECONDS)
            revoke(issuer, north, 1, SOUTH)
            cut()
            assert not server.ended.is_set()  # another's
            revoke(issuer, north, 2, SOUTH, PARTY)
            cut()
            with pytest.raises(grpc.RpcError) as failed:
                begun.result() if aio else next(begun)
            assert isinstance(failed.value, grpc.Call)
            assert failed.value.code() is (grpc.StatusCode.UNAUTHENTICATED if aio else grpc.StatusCode.CANCELLED)
            assert server.ended.wait(GIVE_UP_SECONDS)
            # The connection stands, and is of no more use.
            with pytest.raises(grpc.RpcError) as failed:
                asked(channel)
            assert isinstance(failed.value, grpc.Call)
            assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "revoked" in str(failed.value.details())
        with (
            open_channel(f"127.0.0.1:{server.port}", identity, NORTH) as fresh,
            pytest.raises(grpc.RpcError),
        ):
            asked(fresh)  # not past TLS
        with open_channel(f"127.0.0.1:{server.port}", issuer.issue_as(LEAD), NORTH) as other:
            assert asked(other) == b"x"
    finally:
        server.stop()


def test_a_client_leaves_a_revoked_server_and_says_why(
    north: NodeFolder, issuer: ThrowAwayAuthority, tmp_path: Path
) -> None:
    server = Standing(north, False)
    mine = issuer.install(tmp_path / "lead", LEAD)
    channel = RenewedChannel(f"127.0.0.1:{server.port}", mine, NORTH)
    try:
        stand: Any = channel().stream_stream(STAND)
        standing = stand(iter([b"x"]), timeout=GIVE_UP_SECONDS)
        assert next(standing) == b"begun"
        revoke(issuer, mine, 1, NORTH)
        cut()
        with pytest.raises(grpc.RpcError):
            next(standing)
        with pytest.raises(grpc.RpcError) as failed:
            asked(channel())
        assert isinstance(refusal_of(failed.value, mine.load(), NORTH), RevokedError)
    finally:
        channel.close()
        server.stop()


def test_a_renewed_certificate_of_a_revoked_key_is_no_way_around(north: NodeFolder, issuer: ThrowAwayAuthority) -> None:
    revoke(issuer, north, 1, PARTY)
    server = Standing(north, False)
    try:
        with (
            open_channel(f"127.0.0.1:{server.port}", issuer.issue_as(PARTY), NORTH) as channel,
            pytest.raises(grpc.RpcError),
        ):
            asked(channel)
        issuer.replace_key(PARTY)  # another key, pinned in place of the revoked one: it is back
        with open_channel(f"127.0.0.1:{server.port}", issuer.issue_as(PARTY), NORTH) as channel:
            assert asked(channel) == b"x"
    finally:
        server.stop()


def test_a_list_is_taken_once_and_only_forward(north: NodeFolder, issuer: ThrowAwayAuthority) -> None:
    lists = RevokedLists(north)
    assert (lists.number, lists.newer_than(0)) == (0, b"")
    lists.take(b"", LEAD)
    first, second = listed(issuer, 1, SOUTH), listed(issuer, 2, SOUTH, PARTY)
    for data in (second, first, b"rubbish", listed(ThrowAwayAuthority("cardio"), 9, PARTY)):
        lists.take(data, LEAD)
        assert lists.number == 2
    assert (north.path / REVOKED_FILE).read_bytes() == second
    assert (lists.newer_than(1), lists.newer_than(2)) == (second, b"")
    assert north.load().pins.is_revoked(PARTY)
    (north.path / REVOKED_FILE).write_text("damaged")
    assert lists.newest() is None


def test_lists_that_take_turns_are_one_line_of_the_log_for_a_while(
    north: NodeFolder, issuer: ThrowAwayAuthority, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lists, now = RevokedLists(north), [0.0]
    monkeypatch.setattr("parley.node.revoked_lists.time.monotonic", lambda: now[0])

    def said() -> int:
        for each in range(6):
            lists.take(b"rubbish" + bytes(each % 2), LEAD)
        return capfd.readouterr().err.count("is not taken")

    assert [said(), said()] == [1, 0]
    lists.take(b"rubbish", SOUTH)
    assert capfd.readouterr().err.count("is not taken") == 1
    now[0] = QUIET_SECONDS
    assert said() == 1
    lists.take(listed(issuer, 1, SOUTH), LEAD)
    assert lists.number == 1


def test_a_list_that_is_installed_by_hand_is_noticed(north: NodeFolder, issuer: ThrowAwayAuthority) -> None:
    acts: list[int] = []
    watch = Watch(north, lambda: acts.append(1))
    watch.look()
    revoke(issuer, north, 1, PARTY)
    watch.look()
    watch.look()
    assert acts == [1]
    with pytest.raises(RevokedError):
        north.load().pins.require(PARTY)
