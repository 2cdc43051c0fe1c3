"""The coordinator's process: its folder, its listeners, its books.

    parley coordinator run NODE

Serves parties over mutual TLS and its own operator over a Unix socket. Everything that outlives the process is in
NODE/state; a run that was under way goes on.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc

from parley.coordinator.caught import NodeWatch
from parley.coordinator.code import require_code
from parley.coordinator.controls import Controls
from parley.coordinator.driver import Tools
from parley.coordinator.errors import RunFailedError, StateError
from parley.coordinator.operator import OperatorServicer
from parley.coordinator.operator_socket import SocketAddress
from parley.coordinator.parties import PartyServicer
from parley.coordinator.preparation import prepare
from parley.coordinator.result import write_result
from parley.coordinator.runs import GATHER_SECONDS, Runs
from parley.coordinator.starts import require_steering
from parley.coordinator.store import RunStore
from parley.federation.admission import Admission, AdmissionRecord, Refusal, admit
from parley.federation.claimed import reasons_even_if_true
from parley.federation.errors import ApprovalError, FederationError
from parley.federation.manifest import Manifest
from parley.federation.meaning import verify_apart_with_charge
from parley.federation.names import NodeName, Role
from parley.federation.policy_file import read_policy
from parley.learning.errors import ModelFileError
from parley.learning.holding import CSV, Layout, read_layout
from parley.node import bell, meters, trust
from parley.node.authorization import AioAuthorization, Authorizer, Pinned
from parley.node.collector import settle
from parley.node.connections import bound, listening
from parley.node.credentials import Identity
from parley.node.doorkeeper import Doorkeeper, room_for
from parley.node.endings import verify_ends
from parley.node.evidence import EvidenceFolder, waits_for_answer
from parley.node.newer import AioStrict
from parley.node.node_file import CoordinatorNode
from parley.node.page_process import Pages
from parley.node.revoked_lists import RevokedLists
from parley.node.system import require_linux
from parley.node.transport import server_credentials
from parley.node.vigil import AioHealth, Vigil, disk_is_full, quiet_seconds
from parley.privacy.filters import Cap, Charge, Policy
from parley.privacy.ledger import EndProof, Ledger
from parley.privacy.mechanism import ROW
from parley.v1 import common_pb2, coordinator_pb2_grpc, operator_pb2_grpc

MOST_CALLS = 4096
"""At once, over all callers; each party has a limit of its own."""
OF_ONE_ADDRESS = 100
"""Connections, before they have shown a certificate."""
SERVICE = "parley.v1.CoordinatorService"
DASHBOARD = "parley.dashboard"
TRACKERS = {"mlflow": "parley.tracking.to_mlflow", "tensorboard": "parley.tracking.to_tensorboard"}
"""Started by their names: they import this room, never the other way round."""
TRACKER_VARIABLES = frozenset(
    {
        "PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "SSL_CERT_FILE",
        "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    }
)  # fmt: skip
TRACKER_PREFIXES = ("LC_", "PYTHON", "MLFLOW_", "COVERAGE_")
PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
HEALTH = "/grpc.health.v1.Health/Check"
STOP_SECONDS = 2.0


class NodeBooks:
    """The coordinator's admissions and ledger."""

    def __init__(self, node: CoordinatorNode, identity: Identity, worker: ThreadPoolExecutor, finished: Any) -> None:
        self._node, self._name = node, identity.name
        self._worker, self._finished = worker, finished
        self._admissions = AdmissionRecord(node.admissions)
        self._ledger: Ledger | None = None

    async def admit(self, manifest: Manifest) -> dict[str, Any]:
        """By policy, or because a person approved it; the whole run is charged before anybody else hears of it."""
        loop = asyncio.get_running_loop()
        if pending := EvidenceFolder(self._node.state).against(manifest):
            raise RunFailedError(f"{waits_for_answer(pending)}; then submit the run again")
        by_hand = self._approved(manifest)
        policy = read_policy(self._node.policy) if self._node.policy.exists() else None
        if not by_hand:
            self._refuse(Refusal(reasons_even_if_true(manifest, self._name, policy)))
        await loop.run_in_executor(self._worker, require_steering, manifest, self._node.evaluation, self._node.state)
        await loop.run_in_executor(self._worker, require_code, manifest, self._node.policy)
        meaning, charge = await loop.run_in_executor(
            None, verify_apart_with_charge, manifest, "", Policy(), self._node.verified
        )
        if not by_hand:
            self._refuse(admit(self._admissions, meaning, self._name, policy))
        await loop.run_in_executor(self._worker, self._reserve, manifest, charge)
        trust.name_unpinned(manifest, self._node.identity.load)
        claim: dict[str, Any] = meaning.as_json()
        return claim

    def _refuse(self, decision: Admission | Refusal) -> None:
        if isinstance(decision, Refusal) and decision.reasons:
            raise RunFailedError(
                f"this coordinator's policy does not admit the run: {decision}; a person can, with "
                "`parley coordinator approve`: then submit it again"
            )

    def _approved(self, manifest: Manifest) -> bool:
        try:
            return self._admissions.require(manifest.digest, manifest).run == manifest.run
        except ApprovalError:
            return False

    def _open(self) -> Ledger:
        """In the worker thread, to which it belongs."""
        if self._ledger is None:
            path = self._node.ledger
            self._ledger = Ledger.open_newest(path) if path.exists() else Ledger.create(path, Policy())
        return self._ledger

    def _reserve(self, manifest: Manifest, charge: Charge) -> None:
        ledger = self._open()
        ledger.reserve(manifest.run, registered(ledger, self._node, manifest), charge)

    def record(self, manifest: Manifest, round_index: int, digest: str) -> None:
        self._open().record(manifest.run, round_index, digest)

    async def close(self, manifest: Manifest, ends: list[common_pb2.SignedEnd]) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._worker, self._settle, manifest, ends)
        await loop.run_in_executor(self._worker, self._finished, manifest)

    def _settle(self, manifest: Manifest, ends: list[common_pb2.SignedEnd]) -> None:
        ledger = self._open()
        ledger.verify()
        held = ledger.runs.get(manifest.run)
        if held is None or held.ended or held.accounted:
            return
        opened = verify_ends(ends, manifest, self._node.identity.load().pins)
        evidence = b"".join(end.SerializeToString() for end in ends)
        ledger.settle(EndProof(manifest.run, opened, "both aggregators' signed ends", evidence), lambda proof: None)


def registered(ledger: Ledger, node: CoordinatorNode, manifest: Manifest) -> str:
    """Under which name a run is charged here: the ledger has it."""
    unit = manifest.mechanism.unit
    population = f"{manifest.federation}: each party's {unit.name}"
    if population not in ledger.populations:
        ledger.register(population, unit if unit.column else ROW, Cap(node.epsilon, node.delta))
    return population


def layout_of(node: CoordinatorNode) -> Layout:
    """What the files of its public test set look like."""
    return read_layout(node.layout) if node.layout is not None else CSV


class CoordinatorProcess:
    """Everything that lives as long as the process."""

    def __init__(
        self,
        node: CoordinatorNode,
        note: Callable[..., str],
        gather_seconds: float = GATHER_SECONDS,
        adapt: Callable[[Tools], Tools] = lambda tools: tools,
    ) -> None:
        """`adapt` is for the benchmark, whose baseline has other tools."""
        self.node, self._note = node, note
        node.state.mkdir(mode=0o700, exist_ok=True)
        require_linux()
        trust.require(node)
        self.identity = node.identity.load()
        if self.identity.name.role is not Role.coordinator:
            raise StateError(
                f"this folder's certificate is for {self.identity.name}, no coordinator: see `parley node show`"
            )
        self.store = RunStore(node.state / "runs.sqlite")
        self._worker = ThreadPoolExecutor(1, "coordinator")
        books = NodeBooks(node, self.identity, self._worker, self._write_result)
        addresses = {name: str(address) for name, address in node.aggregators.items()}
        self.watch = NodeWatch(node, lambda: [run.manifest for run in tuple(self.runs.all.values())], note)
        tools = Tools(
            store=self.store,
            books=books,
            worker=self._worker,
            prepare=lambda manifest: prepare(
                manifest, node.evaluation, layout=layout_of(node), state=node.state, policy=node.policy
            ),
            controls=lambda manifest: Controls(node.identity, manifest, addresses),
            opener=lambda controls: controls,
            note=note,
            watch=self.watch,
            full=lambda: disk_is_full(node.state),
        )
        self.runs = Runs(adapt(tools), gather_seconds)
        self.vigil = Vigil(
            node.identity,
            self.identity.name,
            node.state,
            lambda: {peer: addresses[peer.name] for peer in self.runs.aggregators() if peer.name in addresses},
            self.runs.parties,
            lambda: quiet_seconds(len(self.runs.parties())),
        )

    def _write_result(self, manifest: Manifest) -> None:
        """The model and its card, in NODE/models; `parley export` writes them again from the store if need be."""
        try:
            path = write_result(self.node.folder, self.store, manifest)
        except ModelFileError as error:
            self._note("model.not_written", run=manifest.run, error=error)
        else:
            if path is not None:
                self._note("model.written", run=manifest.run)

    def _authorizer(self) -> Authorizer:
        members = _PartyOf(self.runs)
        methods = {f"/{SERVICE}/{name}": members for name in ("ListRuns", "Join", "NextRound", "FetchPoint")}
        # A party asks for runs before there is one: any party that is pinned may.
        return Authorizer(
            {**methods, f"/{SERVICE}/ListRuns": Pinned(self.identity.name.federation, Role.party), HEALTH: _Anyone()},
            self.node.identity,
        )

    async def serve(self) -> dict[str, int]:
        """Start the listeners; the port of the parties' one."""
        room_for(self.node.connections)
        options = [
            *listening(self.node.connections // len(self.node.listen)),
            ("grpc.max_concurrent_streams", MOST_CALLS),
        ]
        self._server = grpc.aio.server(
            interceptors=[AioAuthorization(self._authorizer())], options=options, maximum_concurrent_rpcs=MOST_CALLS
        )
        coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server(
            PartyServicer(self.runs, self.watch, RevokedLists(self.node.identity)), self._server
        )
        health_pb2_grpc.add_HealthServicer_to_server(AioHealth(self.vigil), self._server)
        ports = [
            bound(self._server, str(address), server_credentials(self.node.identity)) for address in self.node.listen
        ]
        self._operator = grpc.aio.server(interceptors=[AioStrict()])
        operator_pb2_grpc.add_OperatorServiceServicer_to_server(
            OperatorServicer(self.runs, self.vigil.troubles), self._operator
        )
        self._socket = bind_socket(self._operator, self.node.state)
        self.runs.take_up()
        await asyncio.to_thread(self.watch.catch_up)
        await self._operator.start()
        self._socket.path.chmod(0o600)
        await self._server.start()
        self.vigil.start()
        self._doorkeeper = Doorkeeper(dict.fromkeys(ports, min(OF_ONE_ADDRESS, self.node.connections // 4)))
        self._doorkeeper.start()
        return {"parties": ports[0]}

    async def stop(self) -> None:
        """Answer what waits, leave the rest to the next start."""
        await asyncio.to_thread(self.vigil.stop)
        await self.runs.close()
        await self._operator.stop(0)
        await self._server.stop(STOP_SECONDS)
        self._doorkeeper.stop()
        self._socket.close()
        self._worker.shutdown()
        self.store.close()


class _PartyOf:
    """The parties of this coordinator's runs, as they are at the moment."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def __contains__(self, name: object) -> bool:
        return any(name in run.manifest.identities(Role.party) for run in self._runs.all.values())


class _Anyone:
    """Every node that is pinned."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, NodeName)


def bind_socket(server: grpc.aio.Server, folder: Path) -> SocketAddress:
    """Mode 600 from its first moment: it is bound in a folder that only its owner may enter."""
    if folder.stat().st_mode & 0o077:
        raise StateError(f"{folder} can be entered by others: chmod 700 it")
    address = SocketAddress(folder)
    address.path.unlink(missing_ok=True)
    server.add_insecure_port(address.text)
    return address


def beside_of(node: CoordinatorNode, note: Callable[..., str]) -> list[Pages]:
    """The processes that only read: whatever becomes of them, runs go on."""
    pages = [Pages(DASHBOARD, node.folder, lambda: note("dashboard.ended"))] if node.dashboard is not None else []
    named = [name for name, place in vars(node.track).items() if place is not None]
    given = tracker_environment(os.environ)
    return [
        *pages,
        *(Pages(TRACKERS[each], node.folder, partial(note, "tracker.ended", kind=each), given) for each in named),
    ]


def tracker_environment(whole: Mapping[str, str]) -> dict[str, str]:
    """What a tracker needs of this process's variables: it loads large libraries, and secrets may be there."""
    return {
        name: value
        for name, value in whole.items()
        if name in TRACKER_VARIABLES or name.lower() in PROXIES or name.startswith(TRACKER_PREFIXES)
    }


async def run(node: CoordinatorNode, note: Callable[..., str], gather_seconds: float) -> None:
    """Until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, done.set)
    bell.install(node, node.identity.load().name)
    process = CoordinatorProcess(node, note, gather_seconds)
    ports = await process.serve()
    settle()
    ready = {"ready": True, "role": "coordinator", "name": process.identity.name.name, "ports": ports}
    print(json.dumps(ready), flush=True)
    meters.start(node, process.identity.name)
    note("node.ready")
    beside = beside_of(node, note)
    try:
        await done.wait()
    finally:
        await asyncio.gather(*(each.stop() for each in beside))
        await process.stop()
        bell.remove()
        note("node.stopped")


def main(node: CoordinatorNode, note: Callable[..., str], gather_seconds: float = GATHER_SECONDS) -> None:
    try:
        asyncio.run(run(node, note, gather_seconds))
    except FederationError as error:
        raise StateError(str(error)) from error
