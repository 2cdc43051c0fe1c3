"""A whole federation on this machine: real processes, real TLS by pinned keys, ports of the kernel's choice.

For the demo, the benchmarks and the tests. One machine is a demonstration, never a trust boundary: here one person
holds every key. Each node lives in FOLDER/NAME as it would on a host of its own (docs/federation.md), and is started by
the same command.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from parley.federation.code import is_code, named_code
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.toml_text import toml_text
from parley.learning.holding import Layout, held, layout_by_name
from parley.learning.schema import schema_from_json
from parley.node.authority import ThrowAwayAuthority
from parley.node.data_sets import DataSet
from parley.node.errors import NodeError
from parley.node.node_file import (
    Address,
    AggregatorNode,
    AnyNode,
    CoordinatorNode,
    DashboardSettings,
    NoiseSettings,
    PartyNode,
)
from parley.node.node_text import write_node

READY_SECONDS, STOP_SECONDS = 240.0, 60.0
"""As long as a machine may take that has much else to do."""
SCHEMA_FILE = "schema.toml"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""One BLAS thread per process: many processes share this machine."""


class ReservedPort:
    """A port of the kernel's choice that nobody else on this machine gets while this object lives.

    Bound but not listening, with SO_REUSEADDR as gRPC's own listeners have it: one of them can bind beside it, and
    after a restart again, while the kernel gives the port to nobody who asks for any.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])

    def __str__(self) -> str:
        return str(self.address)

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.number)

    def close(self) -> None:
        self._socket.close()


@dataclass
class NodeProcess:
    """One node, running or not."""

    name: str
    role: Role
    folder: Path
    process: "subprocess.Popen[bytes] | None" = None
    ready: dict[str, Any] = field(default_factory=dict)
    before: Sequence[str] = ()
    """A module that runs the role's, and its arguments."""

    @property
    def log(self) -> Path:
        return self.folder / "stderr.log"

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Without waiting for it to be ready."""
        command = [sys.executable, "-P", "-m", *self.before, f"parley.{self.role.value}", str(self.folder)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **ONE_THREAD, **(environment or {})},
                start_new_session=True,
            )

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Until its ready line, or an error that shows the end of its log."""
        assert self.process is not None
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        until, data = time.monotonic() + seconds, b""
        while time.monotonic() < until:
            data += self.process.stdout.read() or b""
            if b"\n" in data:
                self.ready = json.loads(data.split(b"\n")[0])
                return
            if self.process.poll() is not None:
                raise NodeError(f"{self.name} ended with code {self.process.returncode}: {self.tail()}")
            time.sleep(0.01)
        raise NodeError(f"{self.name} was not ready in {seconds:g} s: {self.tail()}")

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else "no log"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and every process it had started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        """SIGTERM, then SIGKILL for what does not end."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        self.kill()


class LocalFederation:
    """The nodes of one manifest. Use as a context: nothing is left running."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        data: Mapping[str, Sequence[Path]],
        evaluation: Sequence[Path] = (),
        capacity: int | None = None,
        budget: tuple[float, float] | None = None,
        dashboard: bool = False,
        layout: Layout | None = None,
    ) -> None:
        """`data` are each party's files, of one form: `layout`, or what their names tell.

        Folders are written and records sealed here, as `parley schema check` does it on a host of its own; `start`
        starts the processes. With `dashboard` the coordinator serves it, at `dashboard_url`.
        """
        self.folder, self.manifest = folder, manifest
        layout = layout or layout_by_name(data[manifest.parties[0]][0])
        self.authority = ThrowAwayAuthority(manifest.federation)
        for role in Role:  # all keys first: every folder is then pinned once
            for member in manifest.identities(role):
                self.authority.replace_key(member)
        names = [operator.name for operator in manifest.aggregators]
        self.ports = {
            each: ReservedPort()
            for each in ("coordinator", *(f"{kind} {name}" for name in names for kind in ("share", "control")), "peer")
        }
        if dashboard:
            self.ports["dashboard"] = ReservedPort()
        epsilon, delta = budget or (4 * manifest.guarantee.epsilon, 4 * manifest.guarantee.delta)
        self.nodes: dict[str, NodeProcess] = {}
        controls = {name: self.ports[f"control {name}"].address for name in names}
        shares = {name: self.ports[f"share {name}"].address for name in names}
        for place in range(len(names)):
            self._write(self._server(place, capacity))
        self._write(
            CoordinatorNode(
                folder=folder / manifest.coordinator.name,
                listen=(self.ports["coordinator"].address,),
                aggregators=controls,
                evaluation=tuple(path.absolute() for path in evaluation),
                layout=folder / manifest.coordinator.name / SCHEMA_FILE if evaluation else None,
                epsilon=epsilon,
                delta=delta,
                dashboard=DashboardSettings(self.ports["dashboard"].address) if dashboard else None,
            )
        )
        (self.coordinator.folder / SCHEMA_FILE).write_text(toml_text(layout.as_json()) + "\n")
        for party in manifest.parties:
            home = folder / party
            self._write(
                PartyNode(
                    folder=home,
                    coordinator=self.ports["coordinator"].address,
                    coordinator_name=manifest.coordinator.name,
                    aggregators=shares,
                    data=(
                        DataSet(
                            files=tuple(path.absolute() for path in data[party]),
                            schema=home / SCHEMA_FILE,
                            population="records",
                        ),
                    ),
                    epsilon=epsilon,
                    delta=delta,
                )
            )
            (home / SCHEMA_FILE).write_text(schema_text(manifest, party, layout))
            sealed(home)

    def _server(self, place: int, capacity: int | None) -> AggregatorNode:
        """A dials, and B is dialled."""
        names, peer = [operator.name for operator in self.manifest.aggregators], self.ports["peer"].address
        noise = self.manifest.noise
        # What this run can use, and not a million samples on a machine that plays all nodes; none where none are asked.
        enough = min(NoiseSettings().capacity, self.manifest.joint_samples)
        held = enough if capacity is None or not enough else capacity
        return AggregatorNode(
            folder=self.folder / names[place],
            share=(self.ports[f"share {names[place]}"].address,),
            control=self.ports[f"control {names[place]}"].address,
            peer_name=names[1 - place],
            peer_address=peer if place == 0 else None,
            peer_listener=peer if place == 1 else None,
            noise=NoiseSettings(noise.cover, noise.precision, held),
        )

    def _write(self, node: AnyNode) -> None:
        home, name = node.folder, node.folder.name
        home.mkdir(parents=True, mode=0o700)
        write_node(node)
        (home / "policy.toml").write_text(policy_text(node.role, self.manifest, 4 * self.manifest.guarantee.epsilon))
        self.authority.install(home / "identity", NodeName(self.manifest.federation, node.role, name))
        self.nodes[name] = NodeProcess(name, node.role, home)

    @property
    def dashboard_url(self) -> str:
        """Of a federation that was made with a dashboard."""
        return f"http://{self.ports['dashboard']}"

    @property
    def coordinator(self) -> NodeProcess:
        return self.nodes[self.manifest.coordinator.name]

    @property
    def parties(self) -> list[NodeProcess]:
        return [self.nodes[name] for name in self.manifest.parties]

    @property
    def aggregators(self) -> list[NodeProcess]:
        return [self.nodes[operator.name] for operator in self.manifest.aggregators]

    def start(self) -> None:
        """All processes at once; servers first, so that parties find them."""
        for node in [*self.aggregators, self.coordinator, *self.parties]:
            node.start()
        for node in self.nodes.values():
            node.wait_ready()

    def stop(self) -> None:
        try:
            for node in self.nodes.values():
                if node.alive and node.process is not None:
                    node.process.terminate()
            for node in self.nodes.values():
                node.stop()
        finally:  # whoever interrupts this as well does not want to wait
            for node in self.nodes.values():
                node.kill()
            for port in self.ports.values():
                port.close()

    def remove(self) -> None:
        """Keys and all."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def policy_text(role: Role, manifest: Manifest, epsilon_total: float) -> str:
    """A policy that admits runs like this one, and little else."""
    guarantee, unit = manifest.guarantee, manifest.mechanism.unit.column or ""
    entities = "".join(f'{each.name} = "{each.legal_entity}"\n' for each in manifest.aggregators)
    limits = f"epsilon_per_run = {guarantee.epsilon}\ndelta_per_run = {guarantee.delta}\n"
    sizes = f"largest_dimension = {manifest.model.dimension}\nlargest_rounds = {manifest.releases}\n"
    least = f"minimum_parties = {manifest.minimum_parties}\n"
    leader = f'coordinators = ["{manifest.coordinator.name}"]\n'
    head = f'role = "{role}"\n'
    listed = "".join(f'"{each.name}" = "{each.digest}"\n' for each in named_code(manifest))
    code = f"[code]\n{listed}" if listed else ""
    if role is Role.party:
        most = f"largest_parties = {len(manifest.parties)}\nlargest_manifest_bytes = {2 * len(manifest.canonical)}\n"
        return (
            f"{head}{limits}epsilon_total = {epsilon_total}\n"
            'epsilon_if_a_server_lies_per_run = "any"\nepsilon_if_a_server_lies_total = "any"\n'
            f"{least}{most}{sizes}unit_column = {json.dumps(unit)}\n"
            f"models = {json.dumps([] if is_code(manifest.model.kind) else [manifest.model.kind])}\n"
            f'algorithms = ["{manifest.algorithm.name}"]\n{leader}'
            f"[aggregators]\n{entities}{code}"
        )
    if role is Role.aggregator:
        return f"{head}{least}largest_parties = {len(manifest.parties)}\n{sizes}{leader}[operators]\n{entities}"
    return f"{head}{limits}{least}{sizes}[aggregators]\n{entities}{code}"


def schema_text(manifest: Manifest, party: str, layout: Layout) -> str:
    """What an institution writes whose columns are exactly those of a manifest."""
    units = manifest.mechanism.sampler(party, 0).units
    return toml_text(held(schema_from_json(manifest.schema.body), layout, units).as_json()) + "\n"


def sealed(home: Path) -> None:
    """As `parley schema check` does it."""
    from parley.party.record_check import seal_node

    found = seal_node(home)
    if not found.fits:
        raise NodeError(f"{home.name}: {'; '.join(found.problems)}")


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM cleans up as Ctrl-C does."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
