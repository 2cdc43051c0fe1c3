"""Keeps strangers from filling a server's ports: of one address only so many connections that have yet to prove a name.

gRPC and uvicorn bound how many connections a listener holds and how long a handshake takes, not who holds them: one
machine that connects and says nothing would take every place. So a thread looks at this process's own sockets, as the
kernel lists them. Who is still there after a handshake's time has shown a certificate (or made a request) and is let
be; of the others, where one address has too many, those that said least are closed first, and of these the oldest: who
comes to speak is in before a flood has gone once around. Linux; imports this folder only.
"""

import os
import resource
import socket
import stat
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from parley.node import logs

log = logs.logger()
YOUNG_SECONDS = 12.0
"""Longer than any handshake may take here."""
TOGETHER = 2
"""Times as many may be young of all addresses together."""
LOOK_SECONDS = 0.2
BUSY_SECONDS = 0.02
"""Between two looks, and while there is somebody to close."""
BYTES_RECEIVED = 128
"""Where `struct tcp_info` has tcpi_bytes_received, a 64-bit number."""
INFO_BYTES = 136
TALKING_BYTES = 1024
"""A handshake with a certificate takes more; who has sent less has not finished one."""
SOCKETS = "/proc/self/fd"
DESCRIPTORS = 512
"""For everything that is no connection: files, pipes, a process that verifies."""


def room_for(connections: int) -> None:
    """As many descriptors as the connections need, as far as this process may raise its limit; said if it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard == resource.RLIM_INFINITY or hard >= needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    log.warning("fewer descriptors than connections", count=hard, expected=needed)


@dataclass
class _Seen:
    """A connection to one of the ports."""

    since: float
    port: int
    address: str


class Doorkeeper:
    """For the listeners of one process."""

    def __init__(self, most_young: Mapping[int, int]) -> None:
        """`most_young`: by port, how many connections of one address may be young; less than half of what it holds."""
        self._most_young = dict(most_young)
        self._seen: dict[int, _Seen | None] = {}
        """By inode, which no two sockets share; None for what is no connection to these ports."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="doorkeeper", daemon=True)
        self.closed = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        wait = LOOK_SECONDS
        while not self._stopping.wait(wait):
            try:
                wait = BUSY_SECONDS if self.look(time.monotonic()) else LOOK_SECONDS
            except OSError as error:  # no descriptor is free to look with: the next one may be
                log.error("the connections were not looked at", error=error)
                wait = LOOK_SECONDS

    def look(self, now: float) -> int:
        """Close what is too many; how many that were."""
        places = _sockets()
        self._seen = {inode: self._seen[inode] if inode in self._seen else self._met(place, inode, now)
                      for inode, place in places.items()}  # fmt: skip
        closed = sum(
            self._thin(inodes, len(inodes) - self._most_young[port], places)
            for (port, _), inodes in self._young(now, lambda seen: (seen.port, seen.address)).items()
        )
        closed += sum(
            self._thin(inodes, len(inodes) - TOGETHER * self._most_young[port], places)
            for (port, _), inodes in self._young(now, lambda seen: (seen.port, "")).items()
        )
        self.closed += closed
        return closed

    def _young(self, now: float, group: Callable[[_Seen], tuple[int, str]]) -> dict[tuple[int, str], list[int]]:
        found: dict[tuple[int, str], list[int]] = defaultdict(list)
        for inode, seen in self._seen.items():
            if seen is not None and now - seen.since < YOUNG_SECONDS:
                found[group(seen)].append(inode)
        return found

    def _met(self, place: int, inode: int, now: float) -> _Seen | None:
        with _same(place, inode) as found:
            if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
                return None
            try:
                port = int(found.getsockname()[1])
                return _Seen(now, port, str(found.getpeername()[0])) if port in self._most_young else None
            except OSError:  # a listener, or gone already
                return None

    def _thin(self, inodes: list[int], excess: int, places: dict[int, int]) -> int:
        """Close those that said least, of these the oldest."""
        if excess <= 0:
            return 0

        def order(inode: int) -> tuple[bool, float]:
            seen = self._seen[inode]
            assert seen is not None
            with _same(places[inode], inode) as found:
                return found is not None and _received(found) >= TALKING_BYTES, seen.since

        for inode in sorted(inodes, key=order)[:excess]:
            with _same(places[inode], inode) as found:
                if found is not None:
                    try:
                        found.shutdown(socket.SHUT_RDWR)  # the server reads the end, and closes its descriptor itself
                    except OSError:
                        continue
            self._seen[inode] = None
        return excess


def _sockets() -> dict[int, int]:
    """Inode -> descriptor, of every socket of this process."""
    found = {}
    for name in os.listdir(SOCKETS):
        try:
            status = os.fstat(int(name))
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            found[status.st_ino] = int(name)
    return found


class _same:
    """A descriptor of our own for a socket, if the number still means it: None where another took its place."""

    def __init__(self, place: int, inode: int) -> None:
        self._place, self._inode = place, inode
        self._socket: socket.socket | None = None

    def __enter__(self) -> socket.socket | None:
        try:
            copy = os.dup(self._place)
        except OSError:
            return None
        try:
            if os.fstat(copy).st_ino == self._inode:
                self._socket = socket.socket(fileno=copy)
                return self._socket
        except OSError:
            pass
        os.close(copy)
        return None

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()


def _received(connection: socket.socket) -> int:
    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return 0
    # A kernel that does not say (before 4.1) has nobody count as talking: then age alone decides.
    return int(struct.unpack_from("Q", told, BYTES_RECEIVED)[0]) if len(told) >= INFO_BYTES else 0
