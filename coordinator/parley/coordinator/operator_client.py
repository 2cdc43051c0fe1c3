"""What `parley run, watch, status, stop, resume` do: they ask the coordinator on this machine, and read its store."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from parley.coordinator.attendance import Gathering, by_answers
from parley.coordinator.errors import StateError
from parley.coordinator.operator_socket import SocketAddress
from parley.coordinator.store import RoundRecord, RunRow, RunStore, State
from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.node.errors import NodeError
from parley.node.newer import StrictChannel
from parley.node.node_file import CoordinatorNode, read_node
from parley.v1 import operator_pb2, operator_pb2_grpc

POLL_SECONDS = 0.2
ANSWER_SECONDS = 60.0
OPTIONS = [("grpc.use_local_subchannel_pool", 1)]
"""No connection is shared: the address of a deep folder is one that another folder may have a moment later."""
PRESENCE_SECONDS = 2.0


@dataclass(frozen=True)
class Presence:
    """Of one run, from the coordinator's memory."""

    round: int
    """That is open; −1 for none."""
    uploaded: frozenset[str]
    """Who says that both servers have its contribution to the open round."""
    absent: frozenset[str]
    """Who missed a round and has not been heard of since."""
    open_seconds: float
    troubles: tuple[tuple[str, str, float], ...] = ()
    """Nodes, what is wrong with each (`parley.node.vigil`), and for how many seconds."""
    gathering_until: float = 0.0
    """Until when answers to the run are waited for, in seconds since the epoch; 0 if they are not."""


def coordinator_node(folder: Path) -> CoordinatorNode:
    node = read_node(folder)
    if not isinstance(node, CoordinatorNode):
        own = f"; its own pages are `parley page {folder}`" if node.role is Role.party else ""
        raise NodeError(f"{folder} is the folder of {node.role.with_article}: give a coordinator's{own}")
    return node


class Coordinator:
    """A coordinator on this machine, through its Unix socket and its store."""

    def __init__(self, folder: Path) -> None:
        self.node = coordinator_node(folder)
        path = self.node.state / "runs.sqlite"
        if not path.exists():
            raise StateError(f"{folder} has no runs yet: start it with `parley coordinator run {folder}`")
        self.store = RunStore(path, read_only=True)

    def _ask(self, method: str, request: Any, seconds: float = ANSWER_SECONDS) -> Any:
        with SocketAddress(self.node.state) as address, grpc.insecure_channel(address.text, OPTIONS) as channel:
            stub = operator_pb2_grpc.OperatorServiceStub(StrictChannel(channel))
            try:
                return getattr(stub, method)(request, timeout=seconds)
            except grpc.RpcError as error:
                code = error.code() if isinstance(error, grpc.Call) else None
                if code is grpc.StatusCode.UNAVAILABLE:
                    raise StateError(
                        f"no coordinator is running in {self.node.folder}: `parley coordinator run {self.node.folder}`"
                    ) from None
                raise StateError(str(error.details() if isinstance(error, grpc.Call) else error)) from None

    def held(self, manifest: Manifest) -> RunRow | None:
        """The run of this very manifest, that goes on or may be tried again; a StateError where its name is used up.

        One that this coordinator refused before anybody else heard of it is looked at again when it is submitted again.
        """
        row = next((row for row in self.store.runs() if row.run == manifest.run), None)
        if row is None:
            return None
        if row.digest != manifest.digest:
            raise StateError(f"run {row.run} was submitted with another manifest: {self.store.used_up(row)}")
        tried_again = row.state is State.refused and not self.store.answers(row.digest)
        if row.state.final and not tried_again:
            raise StateError(f"run {row.run} was submitted before: {self.store.used_up(row)}")
        return row

    def submit(self, manifest: Manifest) -> bytes:
        digest: bytes = self._ask("Submit", operator_pb2.SubmitRequest(manifest=manifest.canonical)).digest
        return digest

    def stop(self, run: str, final: bool) -> str:
        return str(self._ask("Stop", operator_pb2.StopRequest(run=run, final=final)).state)

    def resume(self, run: str) -> str:
        return str(self._ask("Resume", operator_pb2.ResumeRequest(run=run)).state)

    def presence(self, run: str) -> Presence:
        """Whom the open round waits for."""
        said = self._ask("Presence", operator_pb2.PresenceRequest(run=run), PRESENCE_SECONDS)
        troubles = tuple((each.node, each.kind, each.seconds) for each in said.troubles)
        return Presence(
            said.round,
            frozenset(said.uploaded),
            frozenset(said.absent),
            said.open_seconds,
            troubles,
            said.gathering_until,
        )

    def presence_if_it_runs(self, row: RunRow) -> Presence | None:
        """None where the coordinator does not answer, or has nothing to do with the run any more."""
        try:
            return None if row.state.resting else self.presence(row.run)
        except StateError:
            return None

    def gathering(self, row: RunRow, presence: Presence | None) -> Gathering | None:
        """Who has answered so far to a run that is being gathered; None of any other."""
        if row.state is not State.gathering:
            return None
        until = presence.gathering_until if presence is not None else 0.0
        return by_answers(Manifest.from_canonical(row.manifest), self.store.answers(row.digest), until)

    def follow(
        self, digest: bytes, since: int = 0, every_seconds: float = math.inf
    ) -> Iterator[tuple[RunRow, list[RoundRecord]]]:
        """The run and its new rounds, whenever something changed and at least so often, until it rests."""
        last: tuple[Any, ...] = ()
        told = 0.0
        while True:
            row = self.store.get(digest)
            if row is None:
                raise StateError("the run is not in the coordinator's store")
            records = self.store.history(digest, since)
            since = records[-1].round + 1 if records else since
            now = (row.state, row.round, row.outcome)
            if records or now != last or time.monotonic() - told >= every_seconds:
                told = time.monotonic()
                yield row, records
            if row.state.resting:
                return
            last = now
            time.sleep(POLL_SECONDS)


def summary(row: RunRow, gathering: Gathering | None = None) -> dict[str, Any]:
    """A run as `--json` shows it."""
    manifest = Manifest.from_canonical(row.manifest)
    return {
        "run": row.run,
        "digest": row.digest.hex(),
        "state": row.state.value,
        "outcome": row.outcome,
        "round": row.round,
        "rounds": manifest.releases,
        "epsilon": row.claim.get("epsilon"),
        "delta": row.claim.get("delta"),
        "epsilon_if_a_server_lies": row.claim.get("epsilon_if_a_server_lies"),
        "gathering": gathering.as_json() if gathering is not None else None,
        **row.evaluation,
    }
