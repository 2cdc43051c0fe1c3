"""Connections that never greet, to every port of an aggregator and of a coordinator: descriptors, memory, newcomers.

    python benchmarks/silent_connections.py                  # 20 s from one address, then 20 s from forty
    python benchmarks/silent_connections.py --seconds 60 --without doorkeeper,connections-of-a-port

Real processes of `parley aggregator run` and `parley coordinator run`; a newcomer of the federation dials anew three
times a second meanwhile. Loopback only. One line of JSON for each.
"""

import argparse
import json
import os
import resource
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from parley.attacks import stage
from parley.attacks.registry import guards
from parley.demo.local import LocalFederation, NodeProcess
from parley.federation.names import Role
from parley.v1 import aggregator_pb2, aggregator_pb2_grpc, coordinator_pb2, coordinator_pb2_grpc

HELD = 15_000


def newcomer(federated: LocalFederation, node: NodeProcess) -> bool:
    """Whether one call on a new connection is answered."""
    manifest = federated.manifest
    server = node.role, node.name
    stub: Any
    if node.role is Role.aggregator:
        port = node.ready["ports"]["control"]
        channel = stage.channel(federated, Role.coordinator, manifest.coordinator.name, server, port)
        stub, call = aggregator_pb2_grpc.ControlServiceStub(channel), aggregator_pb2.StatusRequest()
        method = stub.Status
    else:
        channel = stage.channel(federated, Role.party, manifest.parties[0], server, node.ready["ports"]["parties"])
        stub, call = coordinator_pb2_grpc.CoordinatorServiceStub(channel), coordinator_pb2.ListRunsRequest()
        method = stub.ListRuns
    try:
        return stage.answers(method, call, 5.0)
    finally:
        channel.close()


def measure(federated: LocalFederation, node: NodeProcess, addresses: int, seconds: float) -> dict[str, Any]:
    """One flood."""
    assert node.process is not None
    place = f"/proc/{node.process.pid}/fd"
    before, served, over, most = stage.resident_mib(node), list[bool](), threading.Event(), [0]

    def come() -> None:
        while not over.wait(0.3):
            served.append(newcomer(federated, node))

    def look() -> None:
        while not over.wait(0.01):
            most[0] = max(most[0], len(os.listdir(place)))

    threads = [threading.Thread(target=each) for each in (come, look)]
    for thread in threads:
        thread.start()
    places = [f"127.0.2.{number + 1}" for number in range(addresses)]
    with stage.Silence(list(node.ready["ports"].values()), places) as silence:
        silence.spread(seconds, HELD)
        grown = stage.resident_mib(node) - before
    over.set()
    for thread in threads:
        thread.join()
    time.sleep(2)
    return {
        "node": node.role.value, "addresses": addresses, "seconds": seconds, "opened": silence.opened,
        "most_descriptors": most[0], "before_mib": round(before), "grown_mib": round(grown),
        "grown_after_mib": round(stage.resident_mib(node) - before),
        "newcomers": len(served), "newcomers_served": sum(served),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--without", default="", help="guards to take away, with commas between them")
    chosen = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    without = [guards()[name] for name in chosen.without.split(",") if name]
    for addresses in (1, 40):
        for role in (Role.aggregator, Role.coordinator):
            with (
                tempfile.TemporaryDirectory() as folder,
                stage.federation(Path(folder), stage.sample(), without) as federated,
            ):
                node = federated.aggregators[1] if role is Role.aggregator else federated.coordinator
                stage.started(node)
                time.sleep(1)
                print(json.dumps(measure(federated, node, addresses, chosen.seconds)), flush=True)


if __name__ == "__main__":
    main()
