"""What the operator asks of the coordinator, over the Unix socket of the node's folder."""

from collections.abc import Callable, Sequence
from typing import Any

from parley.coordinator.errors import CoordinatorError
from parley.coordinator.runs import Runs
from parley.coordinator.store import State
from parley.federation.errors import FederationError
from parley.federation.names import Role
from parley.node.refusals import answering
from parley.node.vigil import Trouble
from parley.v1 import operator_pb2, operator_pb2_grpc


class OperatorServicer(operator_pb2_grpc.OperatorServiceServicer):
    """Submit, stop, resume; who is there."""

    def __init__(self, runs: Runs, troubles: Callable[[], Sequence[Trouble]]) -> None:
        self._runs, self._troubles = runs, troubles

    @answering(CoordinatorError, FederationError)
    async def Submit(self, request: operator_pb2.SubmitRequest, context: Any) -> operator_pb2.SubmitResponse:
        return operator_pb2.SubmitResponse(digest=await self._runs.submit(request.manifest))

    @answering(CoordinatorError)
    async def Stop(self, request: operator_pb2.StopRequest, context: Any) -> operator_pb2.StopResponse:
        return operator_pb2.StopResponse(state=await self._runs.stop(request.run, request.final))

    @answering(CoordinatorError)
    async def Resume(self, request: operator_pb2.ResumeRequest, context: Any) -> operator_pb2.ResumeResponse:
        return operator_pb2.ResumeResponse(state=await self._runs.resume(request.run))

    @answering(CoordinatorError)
    async def Presence(self, request: operator_pb2.PresenceRequest, context: Any) -> operator_pb2.PresenceResponse:
        run = self._runs.named(request.run)
        members = {name for role in Role for name in run.manifest.identities(role)}
        index = run.index if run.state is State.running else -1
        return operator_pb2.PresenceResponse(
            round=index,
            uploaded=sorted(party for party, latest in run.uploaded.items() if latest == index >= 0),
            absent=sorted(run.absent),
            open_seconds=run.open_seconds if index >= 0 else 0.0,
            troubles=[
                operator_pb2.NodeTrouble(node=each.node.name, kind=each.kind, seconds=each.seconds)
                for each in self._troubles()
                if each.node in members
            ],
            gathering_until=run.gathering_until if run.state is State.gathering else 0.0,
        )
