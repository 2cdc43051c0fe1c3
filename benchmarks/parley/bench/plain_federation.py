"""The baseline of `parley bench train`: one server, sums in the clear, no noise; the same transport and records.

For the benchmark only: it protects nothing, is reachable from no product command, and refuses any folder that was not
made for it. The coordinator is the product's, with an opener that asks one server; a party computes the same
contribution and uploads the vector itself.

    python -m parley.bench.plain_federation server|coordinator|party NODE
"""

import asyncio
import json
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from parley.coordinator.controls import OPEN_WAIT_SECONDS, Control, Controls, Opening, Wanted
from parley.coordinator.driver import Tools
from parley.federation.admission import AdmissionRecord
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import PIECE_BYTES
from parley.node.authorization import peer_of
from parley.node.collector import settle
from parley.node.connections import KEEPALIVE
from parley.node.credentials import Identity
from parley.node.errors import NodeError
from parley.node.node_file import AggregatorNode, CoordinatorNode, PartyNode, read_node
from parley.node.transport import open_channel, server_credentials
from parley.v1 import aggregator_pb2, aggregator_pb2_grpc, common_pb2, coordinator_pb2, coordinator_pb2_grpc

MARK = "plain-benchmark"
"""A file that only the benchmark puts into a node's folder."""


def only_for_the_benchmark(folder: Path) -> None:
    if not (folder / MARK).exists():
        raise NodeError(f"{folder} was not made by `parley bench train --plain`: there is no other use of this")


class Rounds:
    """Vectors of the round that is under way, in the clear."""

    def __init__(self) -> None:
        self.vectors: dict[int, dict[str, np.ndarray[Any, np.dtype[np.int64]]]] = {}
        self.pieces: dict[tuple[int, str], bytearray] = {}
        self.sums: dict[int, bytes] = {}
        self.changed = asyncio.Condition()
        self.bytes = 0


class PlainShares(aggregator_pb2_grpc.ShareServiceServicer):
    """Takes vectors in the clear."""

    def __init__(self, rounds: Rounds, identity: Identity) -> None:
        self._rounds, self._identity = rounds, identity

    async def Upload(self, request: aggregator_pb2.UploadRequest, context: Any) -> aggregator_pb2.UploadResponse:
        self._rounds.bytes += request.ByteSize()
        key = (request.round, peer_of(context, self._identity).name)
        whole = self._rounds.pieces.setdefault(key, bytearray())
        if len(whole) == request.offset:
            whole += request.data
        if len(whole) < request.size:
            return aggregator_pb2.UploadResponse(received=len(whole))
        async with self._rounds.changed:
            vector = np.frombuffer(bytes(whole), "<i8")
            self._rounds.vectors.setdefault(request.round, {})[key[1]] = vector
            del self._rounds.pieces[key]
            self._rounds.changed.notify_all()
        return aggregator_pb2.UploadResponse(received=request.size, complete=True)


class PlainControl(aggregator_pb2_grpc.ControlServiceServicer):
    """Adds them up."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    async def Propose(self, request: aggregator_pb2.ProposeRequest, context: Any) -> aggregator_pb2.ProposeResponse:
        return aggregator_pb2.ProposeResponse(admitted=True)

    async def Open(self, request: aggregator_pb2.OpenRequest, context: Any) -> aggregator_pb2.OpenResponse:
        rounds, until = self._rounds, time.monotonic() + request.wait_seconds
        async with rounds.changed:
            while request.round not in rounds.sums:
                found = rounds.vectors.get(request.round, {})
                if len(found) >= len(request.expected):
                    total = np.sum(list(found.values()), axis=0, dtype=np.int64)
                    rounds.sums = {request.round: total.astype("<i8").tobytes()}
                    rounds.vectors = {index: each for index, each in rounds.vectors.items() if index > request.round}
                    break
                try:
                    await asyncio.wait_for(rounds.changed.wait(), max(0.0, until - time.monotonic()))
                except TimeoutError:
                    return aggregator_pb2.OpenResponse(state=aggregator_pb2.OpenResponse.STATE_WAITING)
        share = rounds.sums[request.round]
        return aggregator_pb2.OpenResponse(
            state=aggregator_pb2.OpenResponse.STATE_OPENED,
            contributors=request.expected,
            share=share[:PIECE_BYTES],
            size=len(share),
        )

    async def FetchShare(
        self, request: aggregator_pb2.FetchShareRequest, context: Any
    ) -> aggregator_pb2.FetchShareResponse:
        share = self._rounds.sums[request.round]
        return aggregator_pb2.FetchShareResponse(data=share[request.offset : request.offset + PIECE_BYTES])

    async def Status(self, request: aggregator_pb2.StatusRequest, context: Any) -> aggregator_pb2.StatusResponse:
        return aggregator_pb2.StatusResponse(share_bytes=self._rounds.bytes)

    async def End(self, request: aggregator_pb2.EndRequest, context: Any) -> aggregator_pb2.EndResponse:
        return aggregator_pb2.EndResponse(end=common_pb2.SignedEnd(aggregator="plain"))


async def serve(node: AggregatorNode) -> None:
    rounds = Rounds()
    servers = []
    for addresses, add, servicer in (
        (node.share, aggregator_pb2_grpc.add_ShareServiceServicer_to_server, PlainShares(rounds, node.identity.load())),
        ((node.control,), aggregator_pb2_grpc.add_ControlServiceServicer_to_server, PlainControl(rounds)),
    ):
        server = grpc.aio.server(options=KEEPALIVE)
        add(servicer, server)  # type: ignore[no-untyped-call]
        for address in addresses:
            server.add_secure_port(str(address), server_credentials(node.identity))
        await server.start()
        servers.append(server)
    await until_stopped("aggregator")
    for server in servers:
        await server.stop(0)


async def until_stopped(role: str) -> None:
    done = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, done.set)
    settle()
    print(json.dumps({"ready": True, "role": role}), flush=True)
    await done.wait()


class PlainOpener:
    """One server's clear sum."""

    def __init__(self, controls: Controls) -> None:
        self._server: Control = controls.servers[0]

    async def open(self, wanted: Wanted) -> Opening:
        while True:
            request = aggregator_pb2.OpenRequest(
                manifest_digest=wanted.digest,
                round=wanted.round,
                expected=wanted.expected(),
                wait_seconds=OPEN_WAIT_SECONDS,
            )
            answer = await self._server.call("Open", request, wanted.patience_seconds, OPEN_WAIT_SECONDS)
            if answer.state == aggregator_pb2.OpenResponse.STATE_OPENED:
                share = await self._server.whole_share(wanted, answer)
                total = np.frombuffer(share, "<i8").astype(np.int64)
                return Opening(total, tuple(answer.contributors), 0.0, 0.0, 0.0)


class PlainBooks:
    """No policy, no ledger."""

    async def admit(self, manifest: Manifest) -> dict[str, Any]:
        return {}

    def record(self, manifest: Manifest, round_index: int, digest: str) -> None:
        """Nothing is charged, for nothing is protected."""

    async def close(self, manifest: Manifest, ends: list[common_pb2.SignedEnd]) -> None:
        """No ledger to settle."""


async def coordinate(node: CoordinatorNode) -> None:
    from parley.coordinator.process import CoordinatorProcess

    def plainly(tools: Tools) -> Tools:
        def one_server(manifest: Manifest) -> Controls:
            controls = tools.controls(manifest)
            del controls.servers[1:]
            return controls

        return replace(tools, books=PlainBooks(), controls=one_server, opener=PlainOpener)

    process = CoordinatorProcess(node, lambda event, **fields: "", adapt=plainly)
    await process.serve()
    await until_stopped("coordinator")
    await process.stop()


def take_part(node: PartyNode) -> None:
    """One run, from its first round to its last."""
    from parley.learning.contributor import Contributor, Encoding, Query
    from parley.learning.holding import read_holding
    from parley.learning.records import load
    from parley.models.registry import model_of
    from parley.mpc.tables import FORMATS
    from parley.privacy.randomness import SystemRandomness

    identity = node.identity.load()
    manifest = AdmissionRecord(node.admissions).all()[0][0].manifest
    schema, model = model_of(manifest)
    data, noise = node.data[0], manifest.noise
    holding = read_holding(data.schema)
    encoding = Encoding(manifest.mechanism, noise.fraction_bits, FORMATS[noise.precision].scale_bits, noise.parts)
    contributor = Contributor(
        identity.name.name, load(data.files, schema, holding.layout), model, encoding, SystemRandomness()
    )
    lead = NodeName(manifest.federation, Role.coordinator, manifest.coordinator.name)
    first = manifest.identities(Role.aggregator)[0]
    settle()
    print(json.dumps({"ready": True, "role": "party"}), flush=True)
    with (
        open_channel(str(node.coordinator), identity, lead, KEEPALIVE) as to_lead,
        open_channel(str(node.aggregators[first.name]), identity, first, KEEPALIVE) as to_server,
    ):
        coordinator = coordinator_pb2_grpc.CoordinatorServiceStub(to_lead)
        server = aggregator_pb2_grpc.ShareServiceStub(to_server)
        _wait_for_run(coordinator, manifest)
        points: dict[bytes, np.ndarray[Any, np.dtype[np.float64]]] = {}
        after = -1
        while True:
            answer = coordinator.NextRound(
                coordinator_pb2.NextRoundRequest(
                    manifest_digest=manifest.digest, after_round=after, held_points=list(points), wait_seconds=20
                ),
                timeout=40,
            )
            if answer.state == coordinator_pb2.NextRoundResponse.STATE_ENDED:
                signal.pause()  # its figures are read while it lives
            if answer.state != coordinator_pb2.NextRoundResponse.STATE_ROUND:
                continue
            question = answer.round
            points = {
                point.digest: np.frombuffer(point.data, "<f8") if point.data else points[point.digest]
                for point in question.points
            }
            query = Query(question.index, tuple(points[each.digest] for each in question.points), question.kind)
            payload = contributor.contribution(query).astype("<i8").tobytes()
            for offset in range(0, len(payload), PIECE_BYTES):
                server.Upload(
                    aggregator_pb2.UploadRequest(
                        manifest_digest=manifest.digest,
                        round=question.index,
                        size=len(payload),
                        offset=offset,
                        data=payload[offset : offset + PIECE_BYTES],
                    ),
                    timeout=30,
                )
            after = question.index


def _wait_for_run(coordinator: Any, manifest: Manifest) -> None:
    while True:
        try:
            if coordinator.ListRuns(coordinator_pb2.ListRunsRequest(wait_seconds=5), timeout=10).manifests:
                break
        except grpc.RpcError:
            time.sleep(0.1)
    coordinator.Join(coordinator_pb2.JoinRequest(manifest_digest=manifest.digest, accepted=True), timeout=10)


def main() -> None:
    folder = sys.argv[2]
    only_for_the_benchmark(Path(folder))
    node = read_node(Path(folder))
    node.state.mkdir(mode=0o700, exist_ok=True)
    match node:
        case AggregatorNode():
            asyncio.run(serve(node))
        case CoordinatorNode():
            asyncio.run(coordinate(node))
        case PartyNode():
            take_part(node)


if __name__ == "__main__":
    main()
