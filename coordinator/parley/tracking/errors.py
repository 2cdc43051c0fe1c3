"""What can go wrong in a tracker; it never ends a run."""

from parley.errors import ParleyError


class TrackingError(ParleyError):
    """A tracker cannot go on; the message says what to change, and is in the log."""
