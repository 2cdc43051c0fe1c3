"""Nobody keeps a place of the dashboard by asking nothing, and nobody who asks loses one."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from parley.web import patience
from parley.web.patience import MOST_IDLE_OF_ONE, Impatient
from tests.support.until import GIVE_UP_SECONDS

SHORT = 0.4
GET = b"GET /now HTTP/1.1\r\nHost: x\r\n\r\n"


async def now(request: Request) -> Response:
    return PlainTextResponse((await request.body()) or b"now")


async def slowly(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            await asyncio.sleep(SHORT)
            yield b"piece"

    return StreamingResponse(pieces())


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(patience, "REQUEST_SECONDS", SHORT)
    app = Starlette(routes=[Route("/now", now, methods=["GET", "POST"]), Route("/slowly", slowly)])
    config = uvicorn.Config(
        app, log_config=None, lifespan="off", ws="none", http=Impatient, timeout_keep_alive=30, limit_concurrency=200
    )
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    yield int(listener.getsockname()[1])
    server.should_exit = True
    thread.join()
    listener.close()


def says(port: int, words: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=GIVE_UP_SECONDS)
    made.sendall(words)
    return made


def answered(connection: socket.socket, end: bytes) -> bytes:
    """What came, until it ends so."""
    found = b""
    while not found.endswith(end):
        piece = connection.recv(1000)
        assert piece, found
        found += piece
    return found


def is_closed(connection: socket.socket) -> bool:
    """By the other side, without an answer."""
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "words",
    [b"", b"G", b"GET /now HTTP/1.1\r\nHost: x\r\n", b"POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nfour"],
    ids=["silence", "a letter", "no end of the headers", "no end of the body"],
)
def test_what_is_no_whole_request_is_given_up(port: int, words: bytes) -> None:
    with says(port, words) as connection:
        assert is_closed(connection)


def test_half_a_request_after_a_whole_one_is_given_up(port: int) -> None:
    with says(port, GET) as connection:
        answered(connection, b"now")
        connection.sendall(b"GET /n")
        assert is_closed(connection)


@pytest.mark.slow
def test_a_long_answer_and_a_pause_between_requests_are_not_cut(port: int) -> None:
    with says(port, GET) as connection:
        answered(connection, b"now")
        threading.Event().wait(2 * SHORT)
        connection.sendall(b"GET /slowly HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answered(connection, b"0\r\n\r\n").count(b"piece") == 4


def test_the_oldest_that_asks_nothing_makes_room(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "REQUEST_SECONDS", 3600.0)
    silent = [says(port, b"") for _ in range(MOST_IDLE_OF_ONE)]
    with says(port, GET) as connection:
        answered(connection, b"now")
        assert is_closed(silent[0])
    for each in silent:
        each.close()
