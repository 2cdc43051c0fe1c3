"""What can go wrong in a party's client. Each message is one line, says what to change, and holds no record's value.

`public` lets the message into logs (parley.node.logs).
"""

from parley.learning.errors import PartyError
from parley.node.refusals import RefusedCallError
from parley.v1 import common_pb2


class OutboxError(PartyError):
    """The outbox on disk does not allow this, or cannot be read or written."""

    public = True


class UnfitRecordsError(PartyError):
    """The local records are not those that a manifest describes. The details may tell of records: for local eyes."""


class AskAgainError(PartyError):
    """The question could not be had whole, by no fault of its own."""


class StoppedError(PartyError):
    """This process was asked to end."""


class RefusedRunError(RefusedCallError):
    """This party takes no part in a run, or no further part; the message may be shown to anyone."""

    public = True


def refused(kind: str, message: str, hint: str = "") -> RefusedRunError:
    """Such as `refused("malformed", …)`."""
    named: common_pb2.Refusal = getattr(common_pb2, f"REFUSAL_{kind.upper()}")
    return RefusedRunError(named, message, hint)
