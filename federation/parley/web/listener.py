"""Serves a role's pages: uvicorn on one address, TLS where it is not loopback.

A process of its own: a defect here, or a busy accountant, cannot touch a run. It ends when standard input does, which
the role's process holds, or by a signal.
"""

import asyncio
import asyncio.constants
import contextlib
import json
import socket
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from parley.node.doorkeeper import Doorkeeper
from parley.node.errors import NodeError
from parley.node.node_file import Address
from parley.web.patience import MOST_IDLE_OF_ONE, REQUEST_SECONDS, Impatient

STOP_SECONDS = 1
RENEWAL_SECONDS = 10.0
"""Between two looks whether another certificate was installed."""
MOST_CONNECTIONS = 200
IDLE_SECONDS = 30


@dataclass(frozen=True)
class Settings:
    """Of one listener."""

    host: str
    port: int
    """0 for one of the kernel's."""
    certificate: Path | None = None
    key: Path | None = None
    open_metrics: bool = False

    @property
    def secure(self) -> bool:
        return self.certificate is not None

    @property
    def loopback(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")

    def link(self, token: str, at: Address | None = None) -> str:
        """An address that signs in: what follows # never leaves the browser. `at` is where its port is published."""
        return f"{'https' if self.secure else 'http'}://{at or Address(self.host, self.port)}/login#{token}"


@dataclass(frozen=True)
class Site:
    """What is served."""

    node: str
    app: Starlette
    warm: Callable[[], Awaitable[None]]
    """Before anybody is let in."""
    close: Callable[[], Awaitable[None]]
    kind: str = "dashboard"
    """As the line says it that is printed when it serves."""


async def serve(settings: Settings, build: Callable[[int], Site], until_input_ends: bool = False) -> None:
    """Until a signal; prints one line of JSON when it serves. `build` is given the port."""
    if not settings.loopback and not settings.secure:
        raise NodeError(
            f"a dashboard on {settings.host} needs TLS: give [dashboard] certificate and key, or listen on 127.0.0.1"
        )
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listener = socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise NodeError(f"{settings.host}:{settings.port} is not free to listen on: {error.strerror}") from None
    port = int(listener.getsockname()[1])
    site = build(port)
    config = uvicorn.Config(
        site.app, log_config=None, access_log=False, server_header=False, lifespan="off", ws="none",
        timeout_graceful_shutdown=STOP_SECONDS, limit_concurrency=MOST_CONNECTIONS, timeout_keep_alive=IDLE_SECONDS,
        ssl_certfile=settings.certificate, ssl_keyfile=settings.key, http=Impatient,
    )  # fmt: skip
    try:
        config.load()
    except OSError as error:
        raise NodeError(f"the dashboard's certificate cannot be used ({error}): check certificate and key") from None
    asyncio.constants.SSL_HANDSHAKE_TIMEOUT = REQUEST_SECONDS  # uvicorn passes none, and asyncio's is a minute
    doorkeeper = Doorkeeper({port: MOST_IDLE_OF_ONE})  # before a handshake is over uvicorn knows of nobody
    renewal: asyncio.Task[None] | None = None
    if config.ssl is not None and settings.certificate is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
        renewal = asyncio.ensure_future(_renew(config.ssl, settings.certificate, settings.key or settings.certificate))
    server = uvicorn.Server(config)
    if until_input_ends:
        _watch_input(lambda: setattr(server, "should_exit", True))
    await site.warm()
    scheme = "https" if settings.secure else "http"
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    ready = {"ready": True, "role": site.kind, "name": site.node, "url": f"{scheme}://{shown}:{port}/"}
    print(json.dumps(ready), flush=True)
    if settings.secure:
        doorkeeper.start()
    try:
        await server.serve(sockets=[listener])
    finally:
        if settings.secure:
            await asyncio.to_thread(doorkeeper.stop)
        if renewal is not None:
            renewal.cancel()
        await site.close()


async def _renew(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Handshakes to come show the certificate that is installed by then: a renewal needs no restart."""
    held = _pair(certificate, key)
    while True:
        await asyncio.sleep(RENEWAL_SECONDS)
        with contextlib.suppress(OSError):  # half installed, or no pair: the certificate in use is as good as before
            found = _pair(certificate, key)
            if found != held:
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*found[:2])
                context.load_cert_chain(*found[:2])
                held = found


def _pair(certificate: Path, key: Path) -> tuple[Path, Path, int, int]:
    """The files behind the links, and when they were written."""
    first, second = certificate.resolve(strict=True), key.resolve(strict=True)
    return first, second, first.stat().st_mtime_ns, second.stat().st_mtime_ns


def _watch_input(ended: Callable[[], object]) -> None:
    """The pipe that the coordinator holds closes when it ends, however it ends."""

    def wait() -> None:
        while sys.stdin.buffer.read(1):
            pass
        ended()

    threading.Thread(target=wait, name="parent", daemon=True).start()
