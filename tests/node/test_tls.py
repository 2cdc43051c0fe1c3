"""TLS 1.3, and nothing else."""

import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from parley.node import tls
from tests.support.served import ALLOWED, AUTHORITY, SERVER, Served
from tests.support.until import GIVE_UP_SECONDS


def test_plain_connections_are_not_answered(served: Served) -> None:
    channel: Any
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/test.Service/Single")(b"", timeout=GIVE_UP_SECONDS)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(("version", "works"), [(ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, False)])
def test_only_tls_1_3_is_spoken(served: Served, tmp_path: Path, version: ssl.TLSVersion, works: bool) -> None:
    mine = AUTHORITY.issue_as(ALLOWED)
    mine.save(tmp_path / "client")
    (tmp_path / "client" / "shown.crt").write_bytes(mine.presented)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(tmp_path / "client" / "shown.crt", tmp_path / "client" / "node.key")
    context.load_verify_locations(cadata=mine.pins.anchors(SERVER).decode())
    context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", served.port), timeout=GIVE_UP_SECONDS) as raw:
        if works:
            assert context.wrap_socket(raw, server_hostname=SERVER.host_name).version() == "TLSv1.3"
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(raw, server_hostname=SERVER.host_name)


def test_grpc_loaded_too_early_is_noticed() -> None:
    """In processes of their own, for what is loaded stays loaded."""
    for order, refused in (("import grpc", True), ("import parley.node", False)):
        script = f"{order}\nimport grpc\nfrom parley.node import tls\n"
        script += "from parley.federation.errors import FederationError\ntry:\n    tls.require()\n"
        script += "except FederationError:\n    print('refused')"
        environment = {name: value for name, value in os.environ.items() if name != tls.VARIABLE}
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
        )
        assert (done.stdout.strip() == "refused") is refused
