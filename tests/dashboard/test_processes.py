"""The dashboard beside a real coordinator: killed, it comes back and the run is not touched; TLS; metrics."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.attacks import stage
from parley.demo.local import LocalFederation
from parley.web.access import token_in
from tests.support.chromium import reserved_port, wait_until_served
from tests.support.until import GIVE_UP_SECONDS, until

pytestmark = pytest.mark.slow


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    """With only its coordinator running."""
    with LocalFederation(tmp_path / "n", stage.sample(), stage.records(), dashboard=True) as made:
        home = made.coordinator.folder / "node.toml"
        home.write_text(home.read_text() + f'[metrics]\nlisten = "127.0.0.1:{reserved_port()}"\n')
        made.coordinator.start()
        made.coordinator.wait_ready()
        wait_until_served(made.dashboard_url)
        yield made


def dashboards(folder: Path) -> list[int]:
    """Processes that serve this folder's dashboard."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--beside" in words and str(folder).encode() in words:
                found.append(int(entry.name))
    return found


def test_a_dashboard_that_dies_comes_back_and_ends_with_its_coordinator(federation: LocalFederation) -> None:
    folder = federation.coordinator.folder
    (first,) = dashboards(folder)
    os.kill(first, signal.SIGKILL)
    until(lambda: any(each != first for each in dashboards(folder)))
    wait_until_served(federation.dashboard_url)
    assert federation.coordinator.alive
    metrics = (folder / "node.toml").read_text().split('[metrics]\nlisten = "')[1].split('"')[0]
    with urllib.request.urlopen(f"http://{metrics}/metrics") as answer:
        assert 'parley_events_total{node="lead",role="coordinator",event="dashboard.ended"} 1' in answer.read().decode()
    process = federation.coordinator.process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: dashboards(folder) == [])


def test_elsewhere_than_on_loopback_it_speaks_tls_with_the_nodes_certificate(federation: LocalFederation) -> None:
    folder = federation.coordinator.folder
    held = socket.socket()  # of every address: a port that is free on one may be in use on another
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("0.0.0.0", 0))
    port = held.getsockname()[1]
    command = [sys.executable, "-m", "parley.cli.main", "dashboard", str(folder), "--listen", f"0.0.0.0:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["url"] == f"https://0.0.0.0:{port}/"
        context = ssl.create_default_context(cafile=str(folder / "identity" / "current" / "authority.crt"))
        context.check_hostname = False  # a node's certificate names a node, not a host
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/login", context=context) as answer:
            assert "max-age" in answer.headers["strict-transport-security"]
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/login", timeout=GIVE_UP_SECONDS)
        request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics")
        request.add_header("Authorization", f"Bearer {token_in(folder / 'state')}")
        with urllib.request.urlopen(request, context=context) as answer:
            assert b"parley_start_time_seconds" in answer.read()
    finally:
        process.terminate()
        process.wait(GIVE_UP_SECONDS)
        held.close()
