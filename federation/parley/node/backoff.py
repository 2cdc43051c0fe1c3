"""How long to wait before the same is tried again: each pause twice the one before, up to the longest."""


class Backoff:
    """The pauses of one caller; it waits itself, by a sleep or by what may wake it earlier."""

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first, self._longest = first_seconds, longest_seconds
        self.seconds = first_seconds
        """Of the pause that comes next."""

    def next_seconds(self) -> float:
        """Of the pause to make now; the one after it is longer."""
        now, self.seconds = self.seconds, min(2 * self.seconds, self._longest)
        return now

    def reset(self) -> None:
        """After what went well."""
        self.seconds = self._first
