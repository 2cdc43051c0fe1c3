"""One compose file per organisation: seven projects whose networks stand for seven hosts, dialled by published ports.

One hospital gets its certificate by the steps of docs/containers.md, by hand; the others are provisioned.
"""

import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from parley.demo.provision import LISTEN
from parley.node.data_sets import DataSet
from parley.node.node_file import Address, AggregatorNode, AnyNode, CoordinatorNode, DashboardSettings, PartyNode
from parley.node.node_text import write_node
from tests.docker.engine import AGGREGATORS, COORDINATOR, IMAGES, NODES, PARTIES, ROOT, RUN_SECONDS, wait

pytestmark = pytest.mark.docker
BY_HAND = "va"
PORTS = {"lead": 17400, "north": 17401, "south": 17411}
"""An aggregator's control and peer ports follow its share port."""


def role_of(name: str) -> str:
    return "coordinator" if name == COORDINATOR else "aggregator" if name in AGGREGATORS else "party"


def node_files(host: str, folder: Path) -> list[AnyNode]:
    """node.toml of every node, as its operator writes it."""
    share = {name: Address(host, PORTS[name]) for name in AGGREGATORS}
    control = {name: Address(host, PORTS[name] + 1) for name in AGGREGATORS}
    every = {kind: Address("0.0.0.0", port) for kind, port in LISTEN.items()}
    first, second = (
        AggregatorNode(
            folder=folder / own,
            share=(every["share"],),
            control=every["control"],
            peer_name=other,
            peer_address=Address(host, PORTS["south"] + 2) if own == "north" else None,
            peer_listener=every["peer"] if own == "south" else None,
        )
        for own, other in (("north", "south"), ("south", "north"))
    )
    lead = CoordinatorNode(
        folder=folder / "lead",
        listen=(every["coordinator"],),
        aggregators=control,
        epsilon=4.0,
        delta=1e-4,
        dashboard=DashboardSettings(every["dashboard"]),
    )
    parties = [
        PartyNode(
            folder=folder / party,
            coordinator=Address(host, PORTS["lead"]),
            coordinator_name="lead",
            aggregators=share,
            data=(
                DataSet(
                    files=(folder / party / "data" / f"{party}.csv",),
                    schema=folder / party / "schema.toml",
                    population="patients",
                ),
            ),
            epsilon=4.0,
            delta=1e-4,
        )
        for party in PARTIES
    ]
    return [lead, first, second, *parties]


class Hosts:
    """Seven organisations."""

    def __init__(self, client: "docker.DockerClient", folder: Path) -> None:
        self.client, self.folder = client, folder
        self.host = client.networks.get("bridge").attrs["IPAM"]["Config"][0].get("Gateway", "172.17.0.1")

    def compose(self, name: str, *words: str, check: bool = True) -> str:
        file = ROOT / "deploy" / f"compose.{role_of(name)}.yaml"
        first = PORTS.get(name, 0)
        environment = {
            **os.environ,
            "PARLEY_NODE": str(self.folder / name),
            "PARLEY_PARTIES": f"{self.host}:{first}",
            "PARLEY_SHARE": f"{self.host}:{first}",
            "PARLEY_CONTROL": f"{self.host}:{first + 1}",
            "PARLEY_PEER": f"{self.host}:{first + 2}",
            "PARLEY_DASHBOARD_PORT": "0",
        }
        command = ["docker-compose", "-p", f"parleyhost{name}", "-f", str(file), *words]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=RUN_SECONDS
        )
        assert not check or done.returncode == 0, done.stdout[-1500:] + done.stderr[-2500:]
        return done.stdout

    def root(self, *words: str, entrypoint: str = "parley") -> str:
        """What the demonstration's one person does with all folders."""
        mounts = {str(self.folder): {"bind": "/federation"}}
        found: bytes = self.client.containers.run(
            IMAGES["demo"], list(words), entrypoint=entrypoint, user="0:0", remove=True, network_mode="none",
            volumes=mounts,
        )  # fmt: skip
        return found.decode()

    def provision(self) -> None:
        for node in node_files(self.host, self.folder):
            node.folder.mkdir(mode=0o755)
            write_node(node)
        self.root("provision", "/federation", "--owner", "10001", "--run", "hosts")

    def certify(self, name: str) -> None:
        """docs/containers.md, "By hand"."""
        self.root(
            "-c", f"rm -r /federation/{name}/identity; cp /federation/study.toml /federation/lead/data", entrypoint="sh"
        )
        uri = f"parley://heart-demo/{role_of(name)}/{name}"
        asked = self.answer(
            self.compose(name, "run", "--rm", "setup", "node", "request", uri, "--folder", "identity", "--json")
        )
        authority = self.answer(self.root("ca", "show", "--folder", "/federation/authority", "--json"))
        out = f"/federation/{name}/approved.pem"
        peers = {peer: role_of(peer) for peer in (COORDINATOR, *AGGREGATORS)}
        pins = {peer: self.pin(peer) for peer in peers}
        for peer in peers:  # who was provisioned has pinned the key that is gone
            self.compose(
                peer, "run", "--rm", "setup", "pin", "add", f"party/{name}", asked["pin"], "--replace", "--folder",
                "identity",
            )  # fmt: skip
        self.root(
            "ca", "approve", f"/federation/{name}/identity/pending/request.pem", "--fingerprint", asked["fingerprint"],
            "--out", out, "--folder", "/federation/authority",
        )  # fmt: skip
        self.compose(
            name, "run", "--rm", "setup", "node", "install", "approved.pem", "--authority", authority["fingerprint"],
            "--folder", "identity",
            *(word for peer, role in peers.items() for word in ("--pin", f"{role}/{peer}={pins[peer]}")),
        )  # fmt: skip

    def pin(self, name: str) -> str:
        """As its operator reads it out."""
        shown = self.compose(name, "run", "--rm", "setup", "node", "show", "--folder", "identity", "--json")
        return str(self.answer(shown)["pin"])

    @staticmethod
    def answer(text: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
        return found

    def remove(self) -> None:
        for name in NODES:
            self.compose(name, "down", "--volumes", "--timeout", "1", check=False)
        self.root("provision", "/federation", "--remove")


@pytest.fixture
def hosts(client: "docker.DockerClient", images: None) -> Iterator[Hosts]:
    with tempfile.TemporaryDirectory(prefix="parley-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        made = Hosts(client, Path(folder))
        try:
            yield made
        finally:
            made.remove()


def _pair(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def test_seven_organisations_on_hosts_of_their_own_train_a_model(hosts: Hosts) -> None:
    hosts.provision()
    hosts.certify(BY_HAND)
    for name in PARTIES:
        assert "sealed" in hosts.compose(name, "run", "--rm", "party", "schema", "check", "/node")
    for name in (*AGGREGATORS, COORDINATOR, *PARTIES):
        hosts.compose(name, "up", "-d", "--no-build")
    health = ("exec", "-T", "coordinator", "parley", "health", "/node")
    wait(lambda: hosts.compose("lead", *health, check=False), RUN_SECONDS, "lead")
    words = ["exec", "-T", "coordinator", "parley", "run", "/node/data/study.toml", "--node", "/node", "--json"]
    outcome = hosts.answer(hosts.compose("lead", *words))
    assert outcome["state"] == "finished"
    assert outcome["round"] == outcome["rounds"] > 0
    published = hosts.compose("lead", "port", "coordinator", "7480").strip()
    link = hosts.compose(
        "lead", "exec", "-T", "coordinator", "parley", "dashboard", "/node", "--link", "--at", published
    )
    assert link.startswith(f"https://{published}/login#")
    assert b"parley://heart-demo/coordinator/lead" in ssl.PEM_cert_to_DER_cert(
        ssl.get_server_certificate(_pair(published))
    )
    mine = hosts.client.containers.list(filters={"label": "com.docker.compose.project=parleyhostcleveland"})
    assert len(mine) == 1
    assert not mine[0].attrs["HostConfig"]["PortBindings"]
