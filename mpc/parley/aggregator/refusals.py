"""Calls that an aggregation server refuses."""

from parley.mpc.errors import MpcError
from parley.node.refusals import RefusedCallError
from parley.v1 import common_pb2


class CallRefusedError(RefusedCallError, MpcError):
    """A call that is answered with a typed refusal; it ends what was going on like any other error of an opening."""


class CallWaitsError(CallRefusedError):
    """Not now; the same call may succeed later."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(common_pb2.REFUSAL_BUSY, message, hint)


def malformed(message: str, hint: str) -> CallRefusedError:
    """A field that is not as the run fixes it."""
    return CallRefusedError(common_pb2.REFUSAL_MALFORMED, message, hint)
