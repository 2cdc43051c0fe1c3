"""Refusals over gRPC: a status code for machines in between, a typed detail for the caller, a hint for the person."""

from typing import Any

import grpc
from google.protobuf.message import DecodeError

from parley.federation.errors import FederationError
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
}


class RefusedCallError(FederationError):
    """A call that this node, or a peer, refuses for a stated reason."""

    def __init__(self, refusal: "common_pb2.Refusal", message: str, hint: str = "") -> None:
        super().__init__(f"{message}: {hint}" if hint else message)
        self.refusal, self.message, self.hint = refusal, message, hint

    @property
    def name(self) -> str:
        """Such as `too_late`."""
        return common_pb2.Refusal.Name(self.refusal).removeprefix("REFUSAL_").lower()


async def abort(context: Any, error: RefusedCallError) -> None:
    """End a `grpc.aio` call with the refusal; never returns."""
    detail = common_pb2.RefusalDetail(refusal=error.refusal, message=error.message, hint=error.hint)
    metadata = ((METADATA, detail.SerializeToString()),)
    await context.abort(CODES.get(error.refusal, grpc.StatusCode.UNKNOWN), str(error), trailing_metadata=metadata)


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
