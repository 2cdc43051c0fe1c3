"""What can go wrong in an algorithm; each message is one line and says what to change."""

from parley.errors import ParleyError


class AlgorithmError(ParleyError):
    """An unknown algorithm, parameters with which it cannot run, or a model that left the finite numbers."""
