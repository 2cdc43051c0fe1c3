"""What a pool of noise says of itself."""

from dataclasses import dataclass

Audits = tuple[int, int]
"""Batches of the other server that this one has audited, and batches of its own that it was audited in and passed."""


@dataclass
class Level:
    """What an operator sees of the pool; all of it public between the servers."""

    available: int
    capacity: int
    produced: int
    used: int
    lost: int
    sessions: int
    last_error: str | None
    resting: str = ""
    """Why no session is wanted."""
    lanes: int = 0
    """Of the newest batch."""
    workers: int = 1
    """Of the newest session."""
    audits: Audits = (0, 0)
    """In all sessions."""
