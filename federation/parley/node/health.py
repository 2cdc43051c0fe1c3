"""Is the node of a folder in order? What a container's health check runs, and `parley health`.

    python -m parley.node.health NODE

A server is asked over its own listeners, by its own certificate, through `grpc.health.v1`. A party serves nothing: its
loop touches its lock file at every turn, and the file must be young. Imports little, for it runs every few seconds.
"""

import sys
import time
from pathlib import Path

from parley.federation.errors import FederationError
from parley.node.credentials import Identity
from parley.node.errors import NodeError
from parley.node.node_file import Address, AggregatorNode, CoordinatorNode, PartyNode, read_node

ANSWER_SECONDS = 5.0
OLDEST_TURN_SECONDS = 90.0
"""A long poll lasts 30 seconds."""
PARTY_LOCK = "party.lock"
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class UnhealthyError(NodeError):
    """What is wrong, in one line."""


def check_health(folder: Path) -> list[str]:
    """What was found in order, or an UnhealthyError."""
    node = read_node(folder)
    match node:
        case PartyNode():
            return [_turning(node)]
        case AggregatorNode():
            listeners = [*node.share, node.control, *([node.peer_listener] if node.peer_listener else [])]
        case CoordinatorNode():
            listeners = [*node.listen]
    return [_serving(node.identity.load(), _reachable(address)) for address in listeners]


def _turning(node: PartyNode) -> str:
    try:
        age = time.time() - (node.state / PARTY_LOCK).stat().st_mtime
    except OSError:
        raise UnhealthyError("this party has not been started on this folder: `parley party run`") from None
    if age > OLDEST_TURN_SECONDS:
        raise UnhealthyError(f"the party's loop last turned {age:.0f} s ago: see its log, or restart it")
    return f"the loop turned {max(0.0, age):.0f} s ago"


def _reachable(address: Address) -> Address:
    return Address(EVERYWHERE.get(address.host, address.host), address.port)


def _serving(identity: Identity, address: Address) -> str:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    from parley.node.transport import open_channel

    with open_channel(str(address), identity, identity.name) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=ANSWER_SECONDS, wait_for_ready=True
            )
        except grpc.RpcError as error:
            details = error.details() if isinstance(error, grpc.Call) else error
            raise UnhealthyError(f"{address} does not answer: {details}") from None
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise UnhealthyError(f"{address} is not serving")
    return f"{address} is serving"


def main(folder: Path) -> None:
    """One line per listener; exit code 1 if anything is wrong."""
    try:
        print("; ".join(check_health(folder)))
    except (FederationError, NodeError) as error:
        print(f"unhealthy: {error}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
