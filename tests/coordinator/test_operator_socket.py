"""The operator's socket works in folders whose path is longer than a socket's address."""

import asyncio
import stat
from pathlib import Path

import grpc
import pytest

from parley.coordinator.errors import StateError
from parley.coordinator.operator_socket import LONGEST_PATH, SocketAddress
from parley.coordinator.process import bind_socket
from parley.v1 import operator_pb2, operator_pb2_grpc
from tests.support.until import GIVE_UP_SECONDS


class Echo(operator_pb2_grpc.OperatorServiceServicer):
    async def Submit(self, request: operator_pb2.SubmitRequest, context: object) -> operator_pb2.SubmitResponse:
        return operator_pb2.SubmitResponse(digest=request.manifest)


async def asked(folder: Path) -> bytes:
    server = grpc.aio.server()
    operator_pb2_grpc.add_OperatorServiceServicer_to_server(Echo(), server)
    bound = bind_socket(server, folder)
    await server.start()
    bound.path.chmod(0o600)
    try:
        with SocketAddress(folder) as dialled:
            async with grpc.aio.insecure_channel(dialled.text) as channel:
                stub = operator_pb2_grpc.OperatorServiceStub(channel)
                answer = await stub.Submit(operator_pb2.SubmitRequest(manifest=b"here"), timeout=GIVE_UP_SECONDS)
    finally:
        assert stat.S_IMODE(bound.path.stat().st_mode) == 0o600
        await server.stop(0)
        bound.close()
    return bytes(answer.digest)


@pytest.mark.parametrize("depth", [0, 8])
def test_both_ends_meet_however_deep_the_folder_lies(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["a-folder-with-a-long-name"] * depth, "state")
    folder.mkdir(parents=True, mode=0o700)
    if depth:
        assert len(str(folder)) > LONGEST_PATH
    assert asyncio.run(asked(folder)) == b"here"
    assert asyncio.run(asked(folder)) == b"here"  # what an earlier process left is in nobody's way


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["a-folder-with-a-long-name"] * 8, "state")
    folder.mkdir(parents=True, mode=0o755)

    async def bound() -> None:
        bind_socket(grpc.aio.server(), folder)

    with pytest.raises(StateError, match="can be entered by others: chmod 700 it"):
        asyncio.run(bound())
