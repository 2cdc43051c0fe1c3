"""A refusal is a word of a peer: any bytes, and never more than a failed call."""

import asyncio
from concurrent import futures
from typing import Any

import grpc
import pytest

from parley.node.refusals import LONGEST_WORDS, METADATA, RefusedCallError, abort, refusal_in
from parley.v1 import common_pb2
from tests.support.until import GIVE_UP_SECONDS


class Failed(grpc.RpcError, grpc.Call):
    """A call that failed, as gRPC raises it."""

    def __init__(self, detail: bytes) -> None:
        self._detail = detail

    def trailing_metadata(self) -> Any:
        return ((METADATA, self._detail),)

    def code(self) -> Any: ...
    def details(self) -> Any: ...
    def initial_metadata(self) -> Any: ...
    def is_active(self) -> Any: ...
    def time_remaining(self) -> Any: ...
    def cancel(self) -> Any: ...
    def add_callback(self, callback: Any) -> Any: ...


def test_a_refusal_of_strange_bytes_is_a_failed_call_and_no_more() -> None:
    assert refusal_in(Failed(b"\xff\xff\xff")) is None


def test_a_refusal_of_no_known_kind_has_a_name_all_the_same() -> None:
    found = refusal_in(Failed(common_pb2.RefusalDetail(refusal=77, message="x").SerializeToString()))  # type: ignore[arg-type]
    assert found is not None
    assert found.name == "unspecified"


def test_a_refusals_words_are_one_line_of_bounded_length() -> None:
    detail = common_pb2.RefusalDetail(
        refusal=common_pb2.REFUSAL_POLICY, message="\x1b[2Jno\n" + "x" * 100_000, hint="\u202e"
    )
    found = refusal_in(Failed(detail.SerializeToString()))
    assert found is not None
    assert str(found).isprintable()
    assert found.message.startswith("?[2Jno?xxx")
    assert len(found.message) == LONGEST_WORDS


def test_a_refusal_travels_from_a_server_of_either_kind() -> None:
    """`grpc` and `grpc.aio` end a call in different ways; the caller gets the same type from both."""

    def refuse(request: bytes, context: Any) -> Any:
        return abort(context, RefusedCallError(common_pb2.REFUSAL_MALFORMED, "no message", "send one"))

    async def refuse_later(request: bytes, context: Any) -> Any:
        await abort(context, RefusedCallError(common_pb2.REFUSAL_MALFORMED, "no message", "send one"))

    def handlers(method: Any) -> Any:
        return grpc.method_handlers_generic_handler("t.T", {"Ask": grpc.unary_unary_rpc_method_handler(method)})

    def asked(port: int) -> RefusedCallError | None:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError) as failed:
            call: Any = channel.unary_unary("/t.T/Ask")
            call(b"", timeout=GIVE_UP_SECONDS)
        assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        return refusal_in(failed.value)

    async def served_later() -> RefusedCallError | None:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((handlers(refuse_later),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            return await asyncio.to_thread(asked, port)
        finally:
            await server.stop(0)

    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[handlers(refuse)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        found = asked(port)
    finally:
        server.stop(0).wait()
    for each in (found, asyncio.run(served_later())):
        assert each is not None
        assert (each.name, each.message, each.hint) == ("malformed", "no message", "send one")
