"""A cluster that answers somebody without its token gets no records."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from parley.compute import strangers
from parley.compute.errors import ComputeError, LostError
from tests.support.ray_clusters import credentials
from tests.support.until import GIVE_UP_SECONDS


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "SECONDS", GIVE_UP_SECONDS)


def saying(code: grpc.StatusCode | None) -> grpc.Server:
    """A server that says this to everybody, or answers."""

    def answer(request: bytes, context: Any) -> bytes:
        if code is not None:
            context.abort(code, "")
        return b""

    class Every(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(answer)

    return grpc.server(ThreadPoolExecutor(1), handlers=[Every()])


def asked(folder: Path, code: grpc.StatusCode | None) -> None:
    """Over TLS."""
    files = credentials(folder)
    key, certificate, authority = (files[name] for name in ("key", "certificate", "authority"))
    server = saying(code)
    port = server.add_secure_port(
        "127.0.0.1:0",
        grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())], authority.read_bytes(), True),
    )
    server.start()
    try:
        strangers.refuse_open(f"127.0.0.1:{port}", certificate, key, authority)
    finally:
        server.stop(None)


def test_one_that_does_not_know_who_asks_is_right(tmp_path: Path) -> None:
    asked(tmp_path, grpc.StatusCode.UNAUTHENTICATED)


def test_one_that_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ComputeError, match="without a token"):
        asked(tmp_path, None)


def test_one_that_says_something_else_is_asked_again_later(tmp_path: Path) -> None:
    with pytest.raises(LostError, match="INTERNAL"):
        asked(tmp_path, grpc.StatusCode.INTERNAL)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, None), (None, "everybody on this machine"),
        (grpc.StatusCode.INTERNAL, "on loopback .INTERNAL"),
    ],
)  # fmt: skip
def test_a_cluster_of_this_machine_is_asked_too(code: grpc.StatusCode | None, said: str | None) -> None:
    """One whose Ray knows no tokens would take whoever comes."""
    server = saying(code)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        if said is None:
            strangers.refuse_open_local(f"127.0.0.1:{port}")
        else:
            with pytest.raises(ComputeError, match=said):
                strangers.refuse_open_local(f"127.0.0.1:{port}")
    finally:
        server.stop(None)
