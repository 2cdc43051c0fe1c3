"""Refusals over gRPC: a status code for machines in between, a typed detail for the caller, a hint for the person."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError

from parley.errors import ParleyError
from parley.federation.errors import FederationError, NotAuthenticatedError, NotAuthorisedError
from parley.v1 import common_pb2

METADATA = "parley-refusal-bin"
LONGEST_WORDS = 500
"""Of what a peer says, in a message of this node."""
CODES = {
    common_pb2.REFUSAL_NOT_ADMITTED: grpc.StatusCode.FAILED_PRECONDITION,
    common_pb2.REFUSAL_NOT_A_MEMBER: grpc.StatusCode.PERMISSION_DENIED,
    common_pb2.REFUSAL_MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
    common_pb2.REFUSAL_CONTRADICTION: grpc.StatusCode.ALREADY_EXISTS,
    common_pb2.REFUSAL_TOO_LATE: grpc.StatusCode.FAILED_PRECONDITION,
    common_pb2.REFUSAL_TOO_EARLY: grpc.StatusCode.FAILED_PRECONDITION,
    common_pb2.REFUSAL_BUSY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    common_pb2.REFUSAL_LOST: grpc.StatusCode.DATA_LOSS,
    common_pb2.REFUSAL_POLICY: grpc.StatusCode.FAILED_PRECONDITION,
    common_pb2.REFUSAL_STATEMENT: grpc.StatusCode.FAILED_PRECONDITION,
    common_pb2.REFUSAL_CAUGHT: grpc.StatusCode.FAILED_PRECONDITION,
    common_pb2.REFUSAL_NEWER: grpc.StatusCode.FAILED_PRECONDITION,
}
PEERS: dict[type[ParleyError], grpc.StatusCode] = {
    NotAuthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    NotAuthorisedError: grpc.StatusCode.PERMISSION_DENIED,
}
"""Who may not call at all is told no more than that."""
Status = tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]
"""Code, words, metadata."""
Method = TypeVar("Method", bound=Callable[[Any, Any, Any], Awaitable[Any]])


class Wrapper(Protocol):
    """What `answering` makes."""

    def __call__(self, handle: Method) -> Method: ...


class RefusedCallError(FederationError):
    """A call that this node, or a peer, refuses for a stated reason."""

    def __init__(self, refusal: "common_pb2.Refusal", message: str, hint: str = "") -> None:
        super().__init__(f"{message}: {hint}" if hint else message)
        self.refusal, self.message, self.hint = refusal, message, hint

    @property
    def name(self) -> str:
        """Such as `too_late`."""
        return common_pb2.Refusal.Name(self.refusal).removeprefix("REFUSAL_").lower()


def status_of(error: ParleyError) -> Status:
    """What ends a call because of it."""
    if not isinstance(error, RefusedCallError):
        return PEERS.get(type(error), grpc.StatusCode.FAILED_PRECONDITION), str(error), ()
    detail = common_pb2.RefusalDetail(refusal=error.refusal, message=error.message, hint=error.hint)
    metadata = ((METADATA, detail.SerializeToString()),)
    return CODES.get(error.refusal, grpc.StatusCode.UNKNOWN), str(error), metadata


def abort(context: Any, error: ParleyError) -> Any:
    """End a call with it: raises under `grpc`, and under `grpc.aio` when it is awaited."""
    code, words, metadata = status_of(error)
    if metadata:
        context.set_trailing_metadata(metadata)  # `grpc` takes none with the end itself
    return context.abort(code, words)


def answering(*errors: type[ParleyError], refusal: Callable[[Any], ParleyError] = lambda error: error) -> Wrapper:
    """For the methods of a servicer over `grpc.aio`: such errors end the call, as `refusal` has them."""

    def wrap(handle: Method) -> Method:
        @functools.wraps(handle)
        async def method(servicer: Any, request: Any, context: Any) -> Any:
            try:
                return await handle(servicer, request, context)
            except errors as error:
                await abort(context, refusal(error))
                raise

        return cast(Method, method)

    return wrap


def refusal_in(error: grpc.RpcError) -> RefusedCallError | None:
    """The typed refusal that a failed call carries; None for other failures, such as a server that is down."""
    metadata = error.trailing_metadata() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else None
    for key, value in metadata or ():
        if key == METADATA:
            try:
                detail = common_pb2.RefusalDetail.FromString(value if isinstance(value, bytes) else value.encode())
            except DecodeError:
                return None
            known = detail.refusal if detail.refusal in CODES else common_pb2.REFUSAL_UNSPECIFIED
            return RefusedCallError(known, words(detail.message), words(detail.hint))
    return None


def words(said: str) -> str:
    """What a peer says, for messages and terminals: one line, not without end."""
    return "".join(each if each.isprintable() else "?" for each in said[:LONGEST_WORDS])
