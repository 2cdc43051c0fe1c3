"""Whether a cluster answers somebody without its token: then records do not go there."""

from pathlib import Path

import grpc

from parley.compute.errors import ComputeError, LostError

ASKED = "/ray.rpc.NodeInfoGcsService/CheckAlive"
SECONDS = 30.0
OPTIONS = (("grpc.enable_http_proxy", 0),)
"""As Ray itself asks its nodes: no proxy of this machine's stands between."""


def refuse_open(address: str, certificate: Path, key: Path, authority: Path) -> None:
    """A ComputeError unless the cluster, asked over TLS and without a token, says that it does not know who asks.

    One without token authentication takes any token, and nothing else would tell.
    """
    credentials = grpc.ssl_channel_credentials(authority.read_bytes(), key.read_bytes(), certificate.read_bytes())
    with grpc.secure_channel(address, credentials, OPTIONS) as channel:
        if _answers(channel, address, "over TLS"):
            raise ComputeError(
                f"the cluster at {address} answers without a token: start each of its nodes with RAY_AUTH_MODE=token"
            )


def refuse_open_local(address: str) -> None:
    """The same of a cluster on loopback that was just started here, whose Ray may be older than its tokens."""
    with grpc.insecure_channel(address, OPTIONS) as channel:
        if _answers(channel, address, "on loopback"):
            raise ComputeError(
                "Ray, as it is installed here, lets everybody on this machine use its clusters: install 2.52 or newer"
            )


def _answers(channel: grpc.Channel, address: str, how: str) -> bool:
    """Whether somebody without a token is told anything."""
    ask = channel.unary_unary(ASKED, request_serializer=bytes, response_deserializer=bytes)
    try:
        ask(b"", timeout=SECONDS, wait_for_ready=True)
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.UNAUTHENTICATED:
            return False
        raise LostError(f"the cluster at {address} does not answer {how} ({error.code().name})") from None
    return True
