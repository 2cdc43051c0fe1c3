"""Messages of a newer release are refused by name, never read in part: a field that this node does not know may matter.

Every message passes here, at every depth: a server's by its interceptor (`authorization`, `Strict`), an answer by the
channel that it comes over (`transport.open_channel`). Who adds unknown fields to somebody else's words, such as a
coordinator to a server's statement, gets this one call refused: nothing is settled, charged or remembered by it.

The refusal is a function of the message alone, and says as much of any length of it.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar, cast

import grpc
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from parley.node.refusals import RefusedCallError, abort, status_of
from parley.v1 import common_pb2

UPGRADE = "upgrade the node that receives it, which is older than the one that sends it: docs/upgrade.md"
NO_MESSAGE = RefusedCallError(
    common_pb2.REFUSAL_MALFORMED, "the bytes of the call are not a message of this version", "upgrade both nodes"
)
MOST_NAMED = 4
MOST_BYTES_TO_NAME = 1 << 14
"""Of a longer message the fields are counted by nobody: that takes time and memory in proportion."""
MOST_SEARCHED = 1 << 12
Parse = Callable[[bytes], Any]
Kind = TypeVar("Kind", bound=Message)


class NewerError(RefusedCallError):
    """The message has fields that this node does not know."""

    public = True

    def __init__(self, what: str) -> None:
        super().__init__(common_pb2.REFUSAL_NEWER, what, UPGRADE)


def known(message: Kind, data: bytes) -> Kind:
    """The message that was parsed from those bytes; a NewerError if they hold more than it has fields for.

    A second copy without unknown fields is compared with it, in C: 0.1 ms for a MiB, and no more for a hostile one.
    """
    plain = type(message).FromString(data)
    plain.DiscardUnknownFields()
    if message == plain:
        return message
    named = unknown(message) if len(data) <= MOST_BYTES_TO_NAME else []
    what = ", ".join(named) or "one or more"
    raise NewerError(f"{message.DESCRIPTOR.full_name} has fields that this node does not know ({what})")


def unknown(message: Message) -> list[str]:
    """The first few, as Message.number."""
    found = dict.fromkeys(
        f"{each.DESCRIPTOR.name}.{field.field_number}"
        for each in islice(_within(message), MOST_SEARCHED)
        for field in cast(Iterable[Any], UnknownFieldSet(each))
    )
    return [*found][:MOST_NAMED]


def _within(message: Message) -> Iterator[Message]:
    """Itself and every message in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                yield from _within(each)


def strict(parse: Parse) -> Parse:
    """A parser that takes messages of this release only; a RefusedCallError says what is wrong with others."""

    def parsed(data: bytes) -> Any:
        try:
            found = parse(data)
        except Exception:  # whatever a parser makes of foreign bytes; its message may quote them
            raise NO_MESSAGE from None
        return known(found, data) if isinstance(found, Message) else found

    return parsed


# ------------------------------------------------------------ answers


class AnswerError(grpc.RpcError, grpc.Call):
    """An answer that came and is refused here; for the caller a failed call like any other."""

    def __init__(self, error: RefusedCallError) -> None:
        super().__init__(str(error))
        self._code, self._words, self._metadata = status_of(error)

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._words

    def trailing_metadata(self) -> Any:
        return self._metadata

    def initial_metadata(self) -> Any:
        return ()

    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> float:
        return 0.0

    def cancel(self) -> bool:
        return False

    def add_callback(self, callback: Any) -> bool:
        return False


class StrictChannel(grpc.Channel):
    """A channel whose answers are this release's. gRPC's own interceptors crash the process on closed channels."""

    def __init__(self, inner: grpc.Channel) -> None:
        self._inner = inner

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **others: Any
    ) -> Any:
        return _Method(self._inner.unary_unary(method, request_serializer, **others), response_deserializer)

    def stream_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **others: Any
    ) -> Any:
        return _Method(self._inner.stream_unary(method, request_serializer, **others), response_deserializer)

    def unary_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **others: Any
    ) -> Any:
        return _Streaming(self._inner.unary_stream(method, request_serializer, **others), response_deserializer)

    def stream_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **others: Any
    ) -> Any:
        return _Streaming(self._inner.stream_stream(method, request_serializer, **others), response_deserializer)

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> None:
        self._inner.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Any) -> None:
        self._inner.unsubscribe(callback)

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> "StrictChannel":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _answer(parse: Parse | None, data: Any) -> Any:
    try:
        return strict(parse)(data) if parse is not None else data
    except RefusedCallError as error:
        raise AnswerError(error) from None


class _Proxy:
    """Of a gRPC object, all but what is defined here."""

    def __init__(self, inner: Any, parse: Parse | None) -> None:
        self._inner, self._parse = inner, parse

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Method(_Proxy):
    """With one answer."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        return _answer(self._parse, self._inner(*given, **named))

    def with_call(self, *given: Any, **named: Any) -> Any:
        data, call = self._inner.with_call(*given, **named)
        return _answer(self._parse, data), call

    def future(self, *given: Any, **named: Any) -> Any:
        return _Future(self._inner.future(*given, **named), self._parse)


class _Future(_Proxy):
    def result(self, timeout: float | None = None) -> Any:
        return _answer(self._parse, self._inner.result(timeout))


class _Streaming(_Proxy):
    """With many."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        return _Answers(self._inner(*given, **named), self._parse)


class _Answers(_Proxy):
    def __iter__(self) -> "_Answers":
        return self

    def __next__(self) -> Any:
        data = next(self._inner)
        try:
            return _answer(self._parse, data)
        except AnswerError:
            self._inner.cancel()
            raise


class StrictAioChannel:
    """The same for asyncio, where every method has one request and one answer."""

    def __init__(self, inner: grpc.aio.Channel) -> None:
        self._inner = inner

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **others: Any
    ) -> Any:
        inner = self._inner.unary_unary(method, request_serializer, **others)
        return lambda *given, **named: _AioCall(inner(*given, **named), response_deserializer)

    async def close(self, grace: float | None = None) -> None:
        await self._inner.close(grace)

    async def __aenter__(self) -> "StrictAioChannel":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class _AioCall(_Proxy):
    def __await__(self) -> Any:
        data = yield from self._inner.__await__()
        try:
            return _answer(self._parse, data)
        except AnswerError as error:
            metadata = grpc.aio.Metadata(*error.trailing_metadata())
            raise grpc.aio.AioRpcError(error.code(), grpc.aio.Metadata(), metadata, error.details()) from None


# ------------------------------------------------------------ a server without callers to look at


class AioStrict(grpc.aio.ServerInterceptor):
    """For a socket whose callers are known by its mode: all that `authorization` does for others' messages."""

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if not handler:
            return handler
        parse = strict(handler.request_deserializer)

        async def behaviour(data: bytes, context: Any) -> Any:
            try:
                request = parse(data)
            except RefusedCallError as error:
                await abort(context, error)
            return await handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(behaviour, None, handler.response_serializer)
