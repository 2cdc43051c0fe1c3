"""A whole run through an HTTP proxy from Debian's packages: the kernel leaves a party no other way."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation, ReservedPort
from parley.federation.manifest import Manifest
from parley.node.proxies import EXCEPTIONS
from tests.support.cut_off import Neighbour, can_be_made, namespace
from tests.support.programs import IN_CI, program
from tests.support.until import until

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
WHO, WORD = "hospital", "p4ss-word"
CONNECT = re.compile(r"Request \(file descriptor \d+\): CONNECT ([\d.:]+)")


@dataclass
class Proxy:
    """tinyproxy, with a name and a password."""

    address: str
    log: Path

    def asked_for(self, after: int = 0) -> set[str]:
        """host:port of every way that it was asked to open, from this place of its log on."""
        return set(CONNECT.findall(self.log.read_text()[after:]))


def listens(host: str, port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex((host, port)) == 0


@contextmanager
def tinyproxy(folder: Path, listen: str, port: int) -> Iterator[Proxy]:
    folder.mkdir(exist_ok=True)
    config, log = folder / "tinyproxy.conf", folder / "tinyproxy.log"
    config.write_text(
        f'Port {port}\nListen {listen}\nBasicAuth {WHO} {WORD}\nLogFile "{log}"\nLogLevel Connect\n'
        "MaxClients 100\nTimeout 600\nDisableViaHeader Yes\n"
    )
    process = subprocess.Popen([program("tinyproxy", "tinyproxy-bin"), "-d", "-c", str(config)])
    try:
        until(lambda: listens(listen, port))
        yield Proxy(f"{listen}:{port}", log)
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    ip = program("ip", "iproute2")
    if not can_be_made():
        assert not IN_CI, "CI makes network namespaces"
        pytest.skip("only root makes a network namespace")
    with namespace(ip) as made:
        yield made


def environment(proxy: str | None) -> dict[str, str]:
    """Of a party, beside what the tests have: the first variable that gRPC reads, and no exception."""
    return {
        "grpc_proxy": f"http://{WHO}:{WORD}@{proxy}" if proxy else "",
        **dict.fromkeys(EXCEPTIONS, ""),
        "PYTHONPATH": str(ROOT),
    }


def doctor(neighbour: Neighbour, folder: Path, proxy: str | None) -> dict[str, dict[str, Any]]:
    """What it says there of each peer."""
    command = [sys.executable, "-P", "-m", "tests.support.cut_off", neighbour.name, "parley.cli.main"]
    done = subprocess.run(
        [*command, "doctor", str(folder), "--json"], env={**os.environ, **environment(proxy)}, text=True, check=False,
        capture_output=True,
    )  # fmt: skip
    checks = json.loads(done.stdout.strip().splitlines()[-1])["checks"]
    return {each["check"]: each for each in checks if each["check"].startswith(("coordinator ", "aggregator "))}


def test_a_party_that_reaches_nothing_but_a_proxy_takes_part(
    tmp_path: Path, manifest: Manifest, data: dict[str, list[Path]], neighbour: Neighbour
) -> None:
    port = ReservedPort()  # of loopback here: nobody else gets its number, which the proxy takes at another address
    with LocalFederation(tmp_path / "nodes", manifest, data) as federation:
        behind, *others = federation.parties
        behind.before = ("tests.support.cut_off", neighbour.name)
        for node in [*federation.aggregators, federation.coordinator, *others]:
            node.start()
        for node in [*federation.aggregators, federation.coordinator, *others]:
            node.wait_ready()
        found = doctor(neighbour, behind.folder, None)
        assert {each["state"] for each in found.values()} == {"failed"}, "without the proxy nothing is reached"
        where = {str(federation.ports["coordinator"])}
        where |= {str(federation.ports[f"share {node.name}"]) for node in federation.aggregators}
        with tinyproxy(tmp_path / "proxy", neighbour.here, port.number) as proxy:
            found = doctor(neighbour, behind.folder, proxy.address)
            assert [each["problem"] for each in found.values() if each["state"] != "ok"] == []
            assert all(f"through the proxy {proxy.address}" in each["problem"] for each in found.values())
            assert proxy.asked_for() == where, "the doctor asked for every peer"
            asked = len(proxy.log.read_text())
            behind.start(environment(proxy.address))
            behind.wait_ready()
            coordinator = Coordinator(federation.coordinator.folder)
            *_, (row, _) = coordinator.follow(coordinator.submit(manifest))
            assert row.state is State.finished, (row.outcome, behind.tail())
            assert proxy.asked_for(asked) == where, "gRPC took the same way as the doctor, to the same peers"
            assert WORD not in behind.log.read_text() + json.dumps(found)
        until(lambda: "the coordinator does not say which runs there are" in behind.log.read_text())
        assert behind.alive, "without its proxy it waits, and says so"
    port.close()
