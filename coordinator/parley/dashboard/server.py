"""Serves the dashboard: uvicorn on one address, TLS where it is not loopback.

A process of its own: a defect here, or a busy accountant, cannot touch a run. It ends when standard input does, which
the coordinator holds, or by a signal.
"""

import asyncio
import asyncio.constants
import contextlib
import json
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from parley.coordinator.errors import StateError
from parley.coordinator.store import RunStore
from parley.dashboard.access import Sessions, token_in
from parley.dashboard.accounts import Accounts
from parley.dashboard.app import Wiring, application
from parley.dashboard.guard import LOOPBACK
from parley.dashboard.loglines import LogFile
from parley.dashboard.patience import MOST_IDLE_OF_ONE, REQUEST_SECONDS, Impatient
from parley.dashboard.servers import Operator, Servers, Status
from parley.node.doorkeeper import Doorkeeper

STOP_SECONDS = 1
RENEWAL_SECONDS = 10.0
"""Between two looks whether another certificate was installed."""
MOST_CONNECTIONS = 200
IDLE_SECONDS = 30


@dataclass(frozen=True)
class Settings:
    """Of one dashboard."""

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


@dataclass(frozen=True)
class Place:
    """What a dashboard reads: a coordinator's folder."""

    node: str
    federation: str
    state: Path
    ledger: Path
    trail: Path
    status: Status
    operator: Operator


def assemble(settings: Settings, place: Place, port: int) -> Starlette:
    """The application over a node's state folder."""
    wiring = Wiring(
        node=place.node,
        federation=place.federation,
        store=RunStore(place.state / "runs.sqlite", read_only=True),
        log=LogFile(place.state),
        accounts=Accounts(place.ledger, place.trail),
        servers=Servers(place.status, place.operator),
        sessions=Sessions(token_in(place.state)),
        hosts=LOOPBACK,
        port=port,
        secure=settings.secure,
        open_metrics=settings.open_metrics and settings.loopback,
    )
    made = application(wiring)
    made.state.wiring = wiring
    return made


async def serve(settings: Settings, place: Place, until_input_ends: bool = False) -> None:
    """Until a signal; prints one line of JSON when it serves."""
    if not settings.loopback and not settings.secure:
        raise StateError(
            f"a dashboard on {settings.host} needs TLS: give [dashboard] certificate and key, or listen on 127.0.0.1"
        )
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listener = socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise StateError(f"{settings.host}:{settings.port} cannot be listened on: {error.strerror}") from None
    port = int(listener.getsockname()[1])
    app = assemble(settings, place, port)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off", ws="none",
        timeout_graceful_shutdown=STOP_SECONDS, limit_concurrency=MOST_CONNECTIONS, timeout_keep_alive=IDLE_SECONDS,
        ssl_certfile=settings.certificate, ssl_keyfile=settings.key, http=Impatient,
    )  # fmt: skip
    try:
        config.load()
    except OSError as error:
        raise StateError(f"the dashboard's certificate cannot be used ({error}): check certificate and key") from None
    asyncio.constants.SSL_HANDSHAKE_TIMEOUT = REQUEST_SECONDS  # uvicorn passes none, and asyncio's is a minute
    doorkeeper = Doorkeeper({port: MOST_IDLE_OF_ONE})  # before a handshake is over uvicorn knows of nobody
    renewal: asyncio.Task[None] | None = None
    if config.ssl is not None and settings.certificate is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
        renewal = asyncio.ensure_future(_renew(config.ssl, settings.certificate, settings.key or settings.certificate))
    server = uvicorn.Server(config)
    if until_input_ends:
        _watch_input(lambda: setattr(server, "should_exit", True))
    await app.state.pages.warm()
    scheme = "https" if settings.secure else "http"
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    ready = {"ready": True, "role": "dashboard", "name": place.node, "url": f"{scheme}://{shown}:{port}/"}
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
        await app.state.wiring.accounts.close()
        app.state.wiring.store.close()


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


def main(settings: Settings, place: Place, until_input_ends: bool = False) -> None:
    asyncio.run(serve(settings, place, until_input_ends))
