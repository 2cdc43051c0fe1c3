"""What can go wrong in the coordinator; each message is one line and says what to change."""

from parley.errors import ParleyError


class CoordinatorError(ParleyError):
    """Base of every error that the coordinator raises on purpose."""


class StateError(CoordinatorError):
    """The coordinator's own records do not allow this."""


class RunFailedError(CoordinatorError):
    """A run cannot go on; the message is its outcome."""


class SaysCaughtError(RunFailedError):
    """A server opens nothing more with the other one, and says that it has evidence against it."""
