"""How long a connection may keep a place while it asks nothing, and how many places of one address may be kept so.

uvicorn bounds connections in number, and in time only between two requests: who connects and says nothing, or never
ends a request, would keep others out for ever. Whoever has no whole request under way counts as idle here; where one
address has too many idle connections, the oldest makes room for the newest, so that somebody who comes to ask is
served even beside a flood from the same machine.
"""

import asyncio
import time

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0
"""From the connection, or from the first byte after an answer, to a whole request."""
MOST_IDLE_OF_ONE = 60
MOST_IDLE = 120
"""Of all addresses together."""


class Impatient(H11Protocol):
    """uvicorn's HTTP, but for those who do not ask."""

    _idle_since: float | None = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waits()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        asked_nothing = self._timer is None and self._idle_since is not None
        super().data_received(data)
        self._look(begins=asked_nothing)

    def on_response_complete(self) -> None:
        self._idle_since = time.monotonic()  # uvicorn's own limit holds until the next byte comes
        super().on_response_complete()
        self._look(begins=False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _look(self, begins: bool) -> None:
        """After anything was read: whether there is a whole request now."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            self._stop()
            self._idle_since = None
        elif begins:
            self._waits()

    def _waits(self) -> None:
        self._idle_since = time.monotonic()
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._stop()
        if not self.transport.is_closing():
            self.transport.abort()

    def _make_room(self) -> None:
        idle = [each for each in self.connections if isinstance(each, Impatient) and each._idle_since is not None]
        mine = self.client[0] if self.client else ""
        of_one = [each for each in idle if (each.client[0] if each.client else "") == mine]
        crowd = of_one if len(of_one) > MOST_IDLE_OF_ONE else idle if len(idle) > MOST_IDLE else []
        if crowd:
            oldest = min(crowd, key=lambda each: each._idle_since or 0.0)
            self.connections.discard(oldest)  # its end is told in a moment, and its place is free now
            oldest._give_up()
