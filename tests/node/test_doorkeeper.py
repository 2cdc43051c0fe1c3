"""Who is let in where one address wants every place: those that speak, and the newest of those that do not."""

import contextlib
import resource
import socket
from collections.abc import Iterator

import pytest

from parley.node.doorkeeper import DESCRIPTORS, TALKING_BYTES, TOGETHER, YOUNG_SECONDS, Doorkeeper, room_for
from tests.support.until import until

MOST = 4


class Door:
    """A listener that takes everybody in, and the connections to it."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self.listener.getsockname()[1])
        self.pairs: list[tuple[socket.socket, socket.socket]] = []

    def come(self, count: int, address: str = "127.0.0.1", words: bytes = b"") -> None:
        for _ in range(count):
            caller = socket.create_connection(("127.0.0.1", self.port), source_address=(address, 0))
            caller.sendall(words)
            taken = self.listener.accept()[0]
            if words:  # are with the kernel
                taken.recv(len(words), socket.MSG_PEEK | socket.MSG_WAITALL)
            self.pairs.append((caller, taken))

    def open(self) -> list[int]:
        """The callers whose connection still stands, by number."""
        found = []
        for number, (caller, _) in enumerate(self.pairs):
            caller.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                assert caller.recv(1) == b""
                continue
            found.append(number)
        return found


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    yield made
    for caller, taken in made.pairs:
        caller.close()
        taken.close()
    made.listener.close()


def test_of_one_address_the_oldest_of_the_silent_go(door: Door) -> None:
    keeper = Doorkeeper({door.port: MOST})
    door.come(MOST)
    assert keeper.look(0.0) == 0
    door.come(3)
    assert keeper.look(1.0) == 3
    until(lambda: door.open() == [3, 4, 5, 6])  # the end of a connection may be on its way
    assert keeper.look(1.1) == 0


def test_whoever_speaks_stays_before_the_silent(door: Door) -> None:
    keeper = Doorkeeper({door.port: MOST})
    door.come(2, words=bytes(TALKING_BYTES))
    keeper.look(0.0)
    door.come(MOST)
    assert keeper.look(1.0) == 2
    assert set(door.open()) >= {0, 1}


def test_who_is_there_after_a_handshakes_time_is_let_be(door: Door) -> None:
    keeper = Doorkeeper({door.port: MOST})
    door.come(MOST)
    keeper.look(0.0)
    door.come(MOST)
    assert keeper.look(YOUNG_SECONDS + 0.1) == 0
    assert len(door.open()) == 2 * MOST


def test_one_address_takes_nothing_from_another(door: Door) -> None:
    keeper = Doorkeeper({door.port: MOST})
    door.come(2)
    keeper.look(0.0)
    door.come(3 * MOST, "127.0.3.1")
    keeper.look(1.0)
    until(lambda: len(door.open()) == 2 + MOST)
    assert set(door.open()) >= {0, 1}


def test_all_addresses_together_leave_room_for_one_more(door: Door) -> None:
    keeper = Doorkeeper({door.port: MOST})
    for number in range(10):
        door.come(2, f"127.0.3.{number + 1}")
    assert keeper.look(0.0) == 20 - TOGETHER * MOST


def test_other_ports_and_files_are_none_of_its_business(door: Door) -> None:
    keeper = Doorkeeper({1: 0})
    door.come(3 * MOST)
    assert keeper.look(0.0) == 0
    assert len(door.open()) == 3 * MOST


def test_it_looks_by_itself_until_it_is_stopped(door: Door) -> None:
    keeper = Doorkeeper({door.port: MOST})
    keeper.start()
    door.come(2 * MOST)
    until(lambda: keeper.closed >= MOST)
    keeper.stop()
    until(lambda: len(door.open()) == MOST)


def test_a_process_makes_room_for_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, asked = (1024, 4096), list[tuple[int, int]]()
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: asked.append(wanted))
    for connections in (400, 1000, 100_000):
        room_for(connections)
    assert asked == [(1000 + DESCRIPTORS, 4096), (4096, 4096)]
