"""A server of a federation, and callers."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from parley.federation.names import NodeName, Role
from parley.node.authority import ThrowAwayAuthority
from parley.node.authorization import Authorizer, peer_of
from parley.node.credentials import Identity, NodeFolder
from parley.node.transport import (
    open_channel,
    refusal_of,
)
from tests.support.until import GIVE_UP_SECONDS

AUTHORITY = ThrowAwayAuthority("cardio")
SERVER = NodeName("cardio", Role.aggregator, "north")
ALLOWED = NodeName("cardio", Role.party, "hospital-a")
METHODS = ("Single", "Stream", "Collect", "Both")


def sync_handlers() -> grpc.GenericRpcHandler:
    def single(request: bytes, context: Any) -> bytes:
        return peer_of(context).uri.encode()

    def stream(request: bytes, context: Any) -> Iterator[bytes]:
        yield peer_of(context).uri.encode()

    return grpc.method_handlers_generic_handler(
        "test.Service",
        {
            "Single": grpc.unary_unary_rpc_method_handler(single),
            "Stream": grpc.unary_stream_rpc_method_handler(stream),
            "Collect": grpc.stream_unary_rpc_method_handler(single),
            "Both": grpc.stream_stream_rpc_method_handler(stream),
            "Closed": grpc.unary_unary_rpc_method_handler(single),
        },
    )


def aio_handlers() -> grpc.GenericRpcHandler:
    async def single(request: Any, context: Any) -> bytes:
        return peer_of(context).uri.encode()

    async def stream(request: Any, context: Any) -> AsyncIterator[bytes]:
        yield peer_of(context).uri.encode()

    async def writes(request: Any, context: Any) -> None:
        await context.write(peer_of(context).uri.encode())

    return grpc.method_handlers_generic_handler(
        "test.Service",
        {
            "Single": grpc.unary_unary_rpc_method_handler(single),
            "Stream": grpc.unary_stream_rpc_method_handler(stream),
            "Collect": grpc.stream_unary_rpc_method_handler(single),
            "Both": grpc.stream_stream_rpc_method_handler(writes),
            "Closed": grpc.unary_unary_rpc_method_handler(single),
        },
    )


def authorizer(folder: NodeFolder) -> Authorizer:
    callers = {f"/test.Service/{method}": {ALLOWED} for method in METHODS}
    return Authorizer({**callers, "/test.Service/Single": lambda: frozenset({ALLOWED})}, folder)


@dataclass
class Served:
    port: int
    folder: NodeFolder


def call(port: int, identity: Identity, method: str = "Single", peer: NodeName = SERVER) -> str:
    """Who the server says is calling; a refusal as its type."""
    channel: Any
    with open_channel(f"127.0.0.1:{port}", identity, peer) as channel:
        path = f"/test.Service/{method}"
        try:
            answer: Any
            if method in ("Stream", "Both"):
                make = channel.unary_stream if method == "Stream" else channel.stream_stream
                answer = next(iter(make(path)(b"" if method == "Stream" else iter([b""]), timeout=GIVE_UP_SECONDS)))
            elif method == "Collect":
                answer = channel.stream_unary(path)(iter([b""]), timeout=GIVE_UP_SECONDS)
            else:
                answer = channel.unary_unary(path)(b"", timeout=GIVE_UP_SECONDS)
        except grpc.RpcError as error:
            refusal = refusal_of(error, identity, peer)
            raise (refusal or error) from None
    return bytes(answer).decode()
