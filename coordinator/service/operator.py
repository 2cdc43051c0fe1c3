"""What the operator asks of the coordinator, over the Unix socket of the node's folder."""

from typing import Any

import grpc
from parley.federation.errors import FederationError
from parley.v1 import operator_pb2, operator_pb2_grpc

from coordinator.errors import CoordinatorError
from coordinator.service.runs import Runs


class OperatorServicer(operator_pb2_grpc.OperatorServiceServicer):
    """Submit, stop, resume."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def Submit(self, request: operator_pb2.SubmitRequest, context: Any) -> operator_pb2.SubmitResponse:
        try:
            return operator_pb2.SubmitResponse(digest=await self._runs.submit(request.manifest))
        except (CoordinatorError, FederationError) as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise

    async def Stop(self, request: operator_pb2.StopRequest, context: Any) -> operator_pb2.StopResponse:
        try:
            return operator_pb2.StopResponse(state=await self._runs.stop(request.run, request.final))
        except CoordinatorError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise

    async def Resume(self, request: operator_pb2.ResumeRequest, context: Any) -> operator_pb2.ResumeResponse:
        try:
            return operator_pb2.ResumeResponse(state=await self._runs.resume(request.run))
        except CoordinatorError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise
