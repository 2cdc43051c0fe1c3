"""Every handler of every servicer against random messages and random bytes: typed refusals, and the honest run goes on.

What an answer may be: a message, a typed refusal, or one of the codes below. Nothing else, and in no log or detail a
stack trace or a word that a stranger chose.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.node.refusals import refusal_in
from parley.v1 import aggregator_pb2, common_pb2, coordinator_pb2, noise_pb2, operator_pb2
from tests.support import documents
from tests.support.lead import Lead
from tests.support.servers import Federation, contributions, is_noised
from tests.support.until import until

PROOF = "zebra"
"""Marks what a stranger chose: no log may hold it."""
CODES = {"INVALID_ARGUMENT", "INTERNAL", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
SECONDS = 20.0
STREAM_SECONDS = 0.3
"""For what B makes of a stream; a noise session that says nothing more is waited for longer than that."""


@dataclass(frozen=True)
class Method:
    """One of a service."""

    service: str
    name: str
    request: type[Message]
    stream: bool = False

    @property
    def path(self) -> str:
        return f"/parley.v1.{self.service}/{self.name}"


PARTIES = [
    Method("CoordinatorService", name, getattr(coordinator_pb2, f"{name}Request"))
    for name in ("ListRuns", "Join", "NextRound", "FetchPoint")
]
OPERATOR = [
    Method("OperatorService", name, getattr(operator_pb2, f"{name}Request")) for name in ("Submit", "Stop", "Resume")
]
SHARE = [
    Method("ShareService", "Upload", aggregator_pb2.UploadRequest),
    Method("ShareService", "Recall", aggregator_pb2.RecallRequest),
]
CONTROL = [
    Method("ControlService", name, getattr(aggregator_pb2, f"{name}Request"))
    for name in ("Propose", "Open", "FetchShare", "Status", "End")
]
PEER = [
    Method("OpeningService", "Converse", aggregator_pb2.OpeningServiceConverseRequest, True),
    Method("NoiseService", "Converse", noise_pb2.ConverseRequest, True),
]

WHOLE = {
    FieldDescriptor.TYPE_UINT32: st.sampled_from([0, 1, 2, 39, 40, 41, (1 << 31), (1 << 32) - 1]),
    FieldDescriptor.TYPE_UINT64: st.sampled_from([0, 1, 23, 24, 32, 56, 57, 1 << 20, 1 << 40, 1 << 63, (1 << 64) - 1]),
    FieldDescriptor.TYPE_INT32: st.sampled_from([-(1 << 31), -2, -1, 0, 1, 39, 40, (1 << 31) - 1]),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.sampled_from(
        [0.0, -0.0, 0.01, -1.0, float("nan"), float("inf"), float("-inf"), 1e308]
    ),
}
# Waits that are long are kept for tests of their own: here they would only take time.
SHORT_WAITS = st.sampled_from([0.0, -0.0, 0.01, -1.0, float("nan"), float("-inf"), 5e-324])


def messages(request: type[Message], manifest: Manifest) -> st.SearchStrategy[Message]:
    """Messages of a type with fields near to right, and far from it."""
    canonical = manifest.canonical
    blobs = st.sampled_from(
        [
            b"", manifest.digest, manifest.digest[:-1], bytes(32), b"\xff" * 33, PROOF.encode() * 6, canonical,
            canonical.replace(b"heart", PROOF.encode()), canonical + b" ", canonical.replace(b'"run"', b'"\\ud800"', 1),
            b"x" * (1 << 16), bytes(56), bytes(37),
        ]
    ) | st.binary(max_size=80)  # fmt: skip
    texts = st.sampled_from(
        ["", manifest.run, "hospital-a", "hospital-b", PROOF * 3, "../" + PROOF, "\x1b[2J", "a" * 5000]
    )
    texts |= st.text(max_size=20)

    def value(field: Any) -> st.SearchStrategy[Any]:
        if field.name == "wait_seconds":
            return SHORT_WAITS
        if field.type == FieldDescriptor.TYPE_BYTES:
            return blobs
        return texts if field.type == FieldDescriptor.TYPE_STRING else WHOLE[field.type]

    def of(field: Any) -> st.SearchStrategy[Any]:
        return st.lists(value(field), max_size=6) if field.is_repeated else value(field)

    fields = {field.name: of(field) for field in request.DESCRIPTOR.fields}
    likely = {"manifest_digest": st.just(manifest.digest)} if "manifest_digest" in fields else {}
    right = {**fields, **likely}
    return st.fixed_dictionaries({}, optional=fields).map(lambda body: request(**body)) | st.fixed_dictionaries(
        likely, optional={name: each for name, each in right.items() if name not in likely}
    ).map(lambda body: request(**body))


@st.composite
def payloads(draw: st.DrawFn, request: type[Message], manifest: Manifest) -> bytes:
    """A message, one with bytes changed, or no message at all."""
    data = bytearray(draw(messages(request, manifest)).SerializeToString())
    kind = draw(st.sampled_from(["whole", "whole", "changed", "cut", "doubled", "noise"]))
    if kind == "noise":
        return draw(st.binary(max_size=200))
    if kind == "changed" and data:
        for _ in range(draw(st.integers(1, 4))):
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    if kind == "cut" and data:
        del data[draw(st.integers(0, len(data) - 1)) :]
    return bytes(data * 2 if kind == "doubled" else data)


def tried(channel: Any, method: Method, data: bytes) -> None:
    """The call, and that what comes back is of a kind that it may be."""
    try:
        if method.stream:
            for _ in channel.stream_stream(method.path)(iter([data]), timeout=STREAM_SECONDS):
                break
        else:
            channel.unary_unary(method.path)(data, timeout=SECONDS)
    except grpc.RpcError as error:
        assert isinstance(error, grpc.Call)
        details = error.details() or ""
        # gRPC's own word for bytes that are no message, where nobody else parses them: on the operator's socket.
        unparsed = method.service == "OperatorService" and "Error parsing message" in details
        assert unparsed or error.code() is not grpc.StatusCode.UNKNOWN, (method, details)
        if unparsed:
            return
        assert "Traceback" not in details
        assert details.isprintable(), details
        refusal = refusal_in(error)
        if refusal is None:
            allowed = CODES | ({"CANCELLED"} if method.stream else set())
            code = error.code()
            assert code is not None
            assert code.name in allowed, (method, code, details)
        else:
            assert refusal.refusal != common_pb2.REFUSAL_UNSPECIFIED
            assert refusal.message
            assert len(refusal.message) < 2000


def fuzz(channel: Any, methods: list[Method], manifest: Manifest, examples: int) -> None:
    cases = st.sampled_from(methods).flatmap(
        lambda method: payloads(method.request, manifest).map(lambda data: (method, data))
    )

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(cases)
    def run(case: tuple[Method, bytes]) -> None:
        tried(channel, *case)

    run()


def test_the_coordinators_handlers(
    lead: Lead, running: Manifest, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    fuzz(lead.channel("hospital-a"), PARTIES, running, 400)
    quiet(caplog.text + capfd.readouterr().err)
    lead.stub().Join(coordinator_pb2.JoinRequest(manifest_digest=running.digest, accepted=True))
    lead.finishes(running)


def test_the_operators_handlers(
    lead: Lead, running: Manifest, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    fuzz(lead._local, OPERATOR, documents.manifest(run="fuzzed", **{"privacy.epsilon": 50.0}), 200)
    # gRPC itself reports bytes that are no message; whoever may open this socket may read that log.
    assert PROOF not in caplog.text + capfd.readouterr().err
    lead.finishes(running)


def quiet(log: str) -> None:
    assert "Traceback" not in log
    assert PROOF not in log


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    federation = Federation(tmp_path_factory.mktemp("fuzzed"))
    federation.identities["north"] = federation._issue(Role.aggregator, "north")
    federation.start()
    yield federation
    federation.close()


CHANNELS: dict[str, tuple[str, int, str, list[Method], int]] = {
    "share A": ("hospital-a", 0, "share", SHARE, 200),
    "share B": ("hospital-b", 1, "share", SHARE, 150),
    "control A": ("lead", 0, "control", CONTROL[:-1], 250),
    "control B": ("lead", 1, "control", CONTROL[:-1], 150),
    "end": ("lead", 0, "control", CONTROL[-1:], 40),
    "peer": ("north", 1, "peer", PEER, 30),
}


@pytest.mark.parametrize("port", CHANNELS)
def test_the_aggregators_handlers(servers: Federation, run_name: str, port: str) -> None:
    """Server A's own certificate for the peer port: nobody else reaches its handlers at all."""
    who, role, name, methods, examples = CHANNELS[port]
    fuzzed, honest = documents.manifest(run=run_name), documents.manifest(run=run_name + "-2")
    servers.admit(fuzzed)
    servers.admit(honest)
    fuzz(servers.channel(who, role, name), methods, fuzzed, examples)
    logs = b"".join((server.path / "log").read_bytes() for server in servers.servers).decode()
    quiet(logs)
    assert not re.search(r"^(?!\{)", logs.rstrip("\n"), re.MULTILINE) or not logs, logs
    servers.upload_all(contributions(honest, 0))
    assert is_noised(honest, 0, opened(lambda: servers.open(honest, 0)), 6.0)


def opened(ask: Callable[[], list[Any]]) -> list[Any]:
    """A noise session that was disturbed is built anew, in its own time."""

    def both() -> list[Any]:
        answers = ask()
        done = all(getattr(answer, "state", None) == aggregator_pb2.OpenResponse.STATE_OPENED for answer in answers)
        return answers if done else []

    return until(both, pause_seconds=0.2)
