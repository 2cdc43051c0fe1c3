"""The dashboard beside its coordinator: what it reads in a node's folder, and the child process that serves it.

A process of its own: whatever happens in it, the run goes on. It ends with the coordinator, however that ends, because
it reads a pipe that the coordinator holds; it is started again when it dies early, more and more slowly.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.coordinator.controls import Control
from parley.coordinator.errors import CoordinatorError
from parley.coordinator.operator_client import Coordinator
from parley.dashboard.server import Place, Settings
from parley.federation.names import NodeName
from parley.node.errors import NodeError
from parley.node.node_file import Address, CoordinatorNode, DashboardSettings
from parley.v1 import aggregator_pb2

DEFAULT = DashboardSettings(Address("127.0.0.1", 7480))
STATUS_SECONDS = 1.0
STOP_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0


def settings_of(node: CoordinatorNode, listen: Address | None = None) -> Settings:
    """Of node.toml, or on another address. Elsewhere than on loopback the node's own certificate serves."""
    chosen = node.dashboard or DEFAULT
    address = listen or chosen.listen
    certificate, key = chosen.certificate, chosen.key
    if certificate is None and not address.loopback:
        certificate, key = (node.identity.current / name for name in ("node.crt", "node.key"))
    for path in (certificate, key):
        if path is not None and not path.exists():
            raise NodeError(f"{path} does not exist: it is to serve the dashboard on {address}")
    return Settings(address.host, address.port, certificate, key, chosen.metrics)


def place_of(node: CoordinatorNode) -> Place:
    """What the dashboard reads, asks and may order."""
    name = node.identity.load().name
    return Place(
        name.name,
        name.federation,
        node.state,
        node.ledger,
        node.trail,
        _Aggregators(node).status,
        Coordinator(node.folder),
    )


@dataclass
class _Aggregators:
    """Asks the control ports, with the coordinator's own certificate."""

    node: CoordinatorNode

    def __post_init__(self) -> None:
        self._controls: dict[str, Control] = {}

    async def status(self, name: NodeName) -> aggregator_pb2.StatusResponse:
        address = self.node.aggregators.get(name.name)
        if address is None:
            raise CoordinatorError(f"node.toml has no address of {name.name}")
        control = self._controls.setdefault(name.uri, Control(self.node.identity, name, str(address)))
        answer: aggregator_pb2.StatusResponse = await control.call(
            "Status", aggregator_pb2.StatusRequest(), STATUS_SECONDS
        )
        return answer


class DashboardProcess:
    """Keeps the child running."""

    def __init__(self, folder: Path, note: Callable[..., None]) -> None:
        self._folder, self._note = folder, note
        self._task = asyncio.ensure_future(self._keep())

    async def _keep(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            begun = time.monotonic()
            with contextlib.suppress(OSError):  # no process, no memory: the run goes on without its page
                await self._once()
            if time.monotonic() - begun > LONGEST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            if pause == FIRST_PAUSE_SECONDS:  # once: an address that is taken must not fill the audit trail
                self._note("dashboard.ended")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _once(self) -> None:
        command = [sys.executable, "-m", "parley.cli.main", "dashboard", str(self._folder), "--beside"]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=None
        )
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), STOP_SECONDS)
                except TimeoutError:
                    process.kill()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def link(settings: Settings, token: str, at: Address | None = None) -> str:
    """An address that signs in: what follows # never leaves the browser. `at` is where its port is published."""
    scheme = "https" if settings.secure else "http"
    return f"{scheme}://{at or Address(settings.host, settings.port)}/login#{token}"


def start(node: CoordinatorNode, note: Callable[..., Any]) -> DashboardProcess | None:
    """If node.toml asks for one."""
    return DashboardProcess(node.folder, note) if node.dashboard is not None else None
