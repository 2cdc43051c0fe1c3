"""A listener: refused where it would not be safe or cannot be, and over when whoever started it is."""

import asyncio
import json
import os
import socket
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from parley.federation.names import NodeName, Role
from parley.node.authority import ThrowAwayAuthority
from parley.node.errors import NodeError
from parley.web.listener import Settings, Site, serve
from tests.support.until import GIVE_UP_SECONDS, until


class Served:
    """A page, and what the listener did with it."""

    def __init__(self) -> None:
        self.did = list[Any]()

    def site(self, port: int) -> Site:
        self.did.append(port)

        async def page(request: Request) -> Response:
            return PlainTextResponse("here")

        async def warm() -> None:
            self.did.append("warm")

        async def close() -> None:
            self.did.append("closed")

        return Site("lead", Starlette(routes=[Route("/", page)]), warm, close)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "lead.example"])
def test_without_tls_no_other_machine_is_served(host: str) -> None:
    served = Served()
    assert not Settings(host, 0).loopback
    with pytest.raises(NodeError, match="needs TLS"):
        asyncio.run(serve(Settings(host, 0), served.site))
    assert served.did == []


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(NodeError, match=f"127.0.0.1:{port} is not free to listen on"):
            asyncio.run(serve(Settings("127.0.0.1", port), Served().site))


def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    authority = ThrowAwayAuthority("cardio")
    folder = authority.install(tmp_path / "one", NodeName("cardio", Role.coordinator, "lead"))
    other = authority.install(tmp_path / "other", NodeName("cardio", Role.aggregator, "north"))
    certificate = folder.current / "node.crt"
    for key in (tmp_path / "nothing.key", other.current / "node.key"):
        with pytest.raises(NodeError, match="certificate cannot be used"):
            asyncio.run(serve(Settings("127.0.0.1", 0, certificate, key), Served().site))


def test_it_serves_until_the_input_of_its_process_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which the role's process holds: however that ends, its pages end with it."""
    reads, writes = os.pipe()
    with os.fdopen(reads, "r") as parent:
        monkeypatch.setattr(sys, "stdin", parent)
        served, said = Served(), list[str]()

        def ready() -> bool:
            said.append(capsys.readouterr().out)
            return "\n" in "".join(said)

        thread = threading.Thread(
            target=lambda: asyncio.run(serve(Settings("127.0.0.1", 0), served.site, until_input_ends=True)), daemon=True
        )
        thread.start()
        until(ready, "that it serves")
        found = json.loads("".join(said))
        assert (found["ready"], found["role"], found["name"]) == (True, "dashboard", "lead")
        assert found["url"] == f"http://127.0.0.1:{served.did[0]}/"
        with urllib.request.urlopen(found["url"], timeout=GIVE_UP_SECONDS) as answer:
            assert (answer.read(), answer.headers["server"]) == (b"here", None)
        assert served.did[1:] == ["warm"]
        os.close(writes)
        thread.join(GIVE_UP_SECONDS)
        assert not thread.is_alive()
        assert served.did[1:] == ["warm", "closed"]
