"""What the coordinator makes of an aggregator that fails without a typed reason: it waits, then lets the run rest."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from parley.coordinator import controls
from parley.coordinator.controls import Control, StalledError
from parley.coordinator.errors import RunFailedError
from parley.federation.names import NodeName, Role
from parley.node.credentials import NodeFolder
from parley.v1 import aggregator_pb2

PEER = NodeName("cardio", Role.aggregator, "north")


class Call:
    """One call: an answer, or a status."""

    def __init__(self, status: grpc.StatusCode | None) -> None:
        self.status = status

    def __await__(self) -> Iterator[Any]:
        return self.answer().__await__()

    async def answer(self) -> aggregator_pb2.StatusResponse:
        if self.status is not None:
            raise grpc.aio.AioRpcError(self.status, grpc.aio.Metadata(), grpc.aio.Metadata(), "disk is full")
        return aggregator_pb2.StatusResponse(version="1")

    async def trailing_metadata(self) -> tuple[()]:
        return ()


class Stub:
    """Fails with a status so many times, then answers."""

    def __init__(self, status: grpc.StatusCode, times: int) -> None:
        self.status, self.left = status, times

    def Status(self, request: Any, timeout: float, metadata: Any) -> Call:
        self.left -= 1
        return Call(self.status if self.left >= 0 else None)


def ask(stub: Stub, monkeypatch: pytest.MonkeyPatch, patience_seconds: float) -> Any:
    control = Control(NodeFolder(Path("nowhere")), PEER, "127.0.0.1:1")

    async def made() -> Stub:
        return stub

    monkeypatch.setattr(control, "_stub", made)
    monkeypatch.setattr(control, "_identity", None, raising=False)
    monkeypatch.setattr(controls, "refusal_of", lambda *_: None)
    monkeypatch.setattr(controls, "FIRST_BACKOFF_SECONDS", 0.01)
    return asyncio.run(control.call("Status", aggregator_pb2.StatusRequest(), patience_seconds))


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL])
def test_a_passing_failure_is_waited_out(status: grpc.StatusCode, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(Stub(status, 3), monkeypatch, 10).version == "1"


def test_a_lasting_failure_lets_the_run_rest_where_it_can_be_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StalledError, match="disk is full"):
        ask(Stub(grpc.StatusCode.UNKNOWN, 10**6), monkeypatch, 0.1)


def test_what_waiting_does_not_mend_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunFailedError) as caught:
        ask(Stub(grpc.StatusCode.PERMISSION_DENIED, 1), monkeypatch, 10)
    assert not isinstance(caught.value, StalledError)
