"""What can go wrong in a party's client. Each message is one line, says what to change, and holds no record's value.

`public` lets the message into logs (parley.node.logs).
"""

from parley.learning.errors import PartyError
from parley.node.refusals import RefusedCallError
from parley.privacy.errors import BudgetExceededError
from parley.privacy.filters import LYING
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


def no_part(run: str) -> RefusedRunError:
    """One sentence, whether people have refused the run, taken back their word or left it: why is not for others."""
    return refused("not_admitted", f"this party takes no part in run {run}", "propose a new one")


def exceeded(error: BudgetExceededError) -> RefusedRunError:
    """In words for everybody: which part of the budget, and not what else was spent."""
    named = " and ".join(f"privacy.{what}" for what in error.exhausted)
    return refused("policy", f"{named}: the run does not fit what is left of this party's budget", advice(error))


def advice(error: BudgetExceededError) -> str:
    if LYING in error.exhausted:
        return 'more of the servers\' own noise, or security = "malicious"'
    return "more noise or fewer rounds" if error.exhausted == ("epsilon",) else "a run with a smaller delta"
