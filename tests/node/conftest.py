"""A node's authority, its peers, its log and a server, for the tests of `node`."""

import asyncio
import io
import logging
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from parley.federation.names import Role
from parley.node import logs
from parley.node.authorization import AioAuthorization, Authorization
from parley.node.transport import server_credentials
from tests.party.conftest import stage, verified_in_process  # noqa: F401  fixtures
from tests.support.containers import federation  # noqa: F401  fixtures
from tests.support.enrolment import authority  # noqa: F401  fixtures
from tests.support.examined import party, ports  # noqa: F401  fixtures
from tests.support.histories import world  # noqa: F401  fixtures
from tests.support.pinned import issuer  # noqa: F401  fixtures
from tests.support.served import AUTHORITY, SERVER, Served, aio_handlers, authorizer, sync_handlers
from tests.support.servers import servers  # noqa: F401  fixtures
from tests.support.until import GIVE_UP_SECONDS


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is printed, with everything that `configure` takes over put back afterwards."""
    root, hooks = logging.getLogger(), (sys.excepthook, threading.excepthook, sys.unraisablehook)
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    logs.configure(Role.party, "hospital-a", level="debug", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    logging.captureWarnings(False)
    logs._sink.__init__()  # type: ignore[misc]


@pytest.fixture(params=["sync", "aio"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    folder = AUTHORITY.install(tmp_path / "server", SERVER)
    if request.param == "sync":
        server = grpc.server(futures.ThreadPoolExecutor(4), interceptors=[Authorization(authorizer(folder))])
        server.add_generic_rpc_handlers((sync_handlers(),))
        port = server.add_secure_port("127.0.0.1:0", server_credentials(folder))
        server.start()
        yield Served(port, folder)
        server.stop(0).wait()
        return
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> tuple[grpc.aio.Server, int]:
        server = grpc.aio.server(interceptors=[AioAuthorization(authorizer(folder))])
        server.add_generic_rpc_handlers((aio_handlers(),))
        port = server.add_secure_port("127.0.0.1:0", server_credentials(folder))
        await server.start()
        return server, port

    running, port = asyncio.run_coroutine_threadsafe(start(), loop).result(GIVE_UP_SECONDS)
    yield Served(port, folder)
    asyncio.run_coroutine_threadsafe(running.stop(0), loop).result(GIVE_UP_SECONDS)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
