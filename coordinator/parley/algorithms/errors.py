"""What can go wrong in `coordinator`; each message is one line and says what to change."""


class CoordinatorError(Exception):
    """Base of every error that this folder raises on purpose."""


class AlgorithmError(CoordinatorError):
    """An unknown algorithm, or parameters with which it cannot run."""


class StateError(CoordinatorError):
    """The coordinator's own records do not allow this."""


class RunFailedError(CoordinatorError):
    """A run cannot go on; the message is its outcome."""
