"""What can go wrong where a party's sums are computed on other machines; no message holds a record's value."""

from parley.learning.errors import PartyError


class ComputeError(PartyError):
    """The cluster cannot be used as it is configured; the message says what to change."""

    public = True


class LostError(ComputeError):
    """The cluster, or the process that speaks with it, is gone: tried again."""


class WorkerFailedError(PartyError):
    """A worker could not compute its part at all, which no record is known to bring about: the run is left for good."""


class EngineStoppedError(PartyError):
    """This process was asked to end while a question was under way."""


class EngineLateError(PartyError):
    """The cluster was away for so long that the run may be over: nothing was answered, and the question is due anew."""
