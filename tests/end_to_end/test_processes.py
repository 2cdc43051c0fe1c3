"""What each process of a federation has loaded by the end of a run, from the processes themselves.

Python writes every import to standard error as it happens (PYTHONPROFILEIMPORTTIME), the late ones too.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parley.coordinator.operator_client import Coordinator
from parley.coordinator.process import DASHBOARD
from parley.coordinator.store import State
from parley.demo.local import LocalFederation, NodeProcess
from parley.federation.manifest import Manifest
from tests.support.until import GIVE_UP_SECONDS

IMPORT = re.compile(r"^import time:\s+\d+ \|\s+\d+ \|\s+(\S+)$", re.MULTILINE)
LOUD = {"PYTHONPROFILEIMPORTTIME": "1"}
NODE = {"errors", "v1", "privacy", "mpc", "federation", "node"}
"""What every role holds, whatever it does."""
WEB = {"starlette", "uvicorn", "jinja2", "h11"}
HEAVY = {"scipy", "dp_accounting", "typer", "click", "rich", "torch", "ray"}
"""Accounting belongs in short-lived processes, the command line in nobody's, and a user's network in one of its own."""


def loaded(log: str) -> set[str]:
    return set(IMPORT.findall(log))


def rooms(modules: set[str]) -> set[str]:
    return {name.split(".")[1] for name in modules if name.startswith("parley.")}


def libraries(modules: set[str]) -> set[str]:
    """By their parts: an import that was tried and refused, as logs.py has it of rich, shows no part."""
    return {name.split(".")[0] for name in modules if "." in name}


def dashboard_of(coordinator: NodeProcess) -> str:
    """The imports of a dashboard, started as the coordinator starts its own, until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", DASHBOARD, str(coordinator.folder), "--listen", "127.0.0.1:0", "--beside"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **LOUD},
    )  # fmt: skip
    assert process.stdout is not None
    assert '"ready": true' in process.stdout.readline()
    _, log = process.communicate(timeout=GIVE_UP_SECONDS)
    assert process.returncode == 0
    return log


@pytest.mark.slow
def test_no_process_holds_a_room_that_its_role_does_not_need(
    tmp_path: Path, manifest: Manifest, data: dict[str, list[Path]]
) -> None:
    with LocalFederation(tmp_path / "nodes", manifest, data, evaluation=data["party-1"]) as federation:
        for node in federation.nodes.values():
            node.start(LOUD)
        for node in federation.nodes.values():
            node.wait_ready()
        coordinator = Coordinator(federation.coordinator.folder)
        *_, (row, _) = coordinator.follow(coordinator.submit(manifest))
        assert row.state is State.finished, (row.outcome, federation.coordinator.tail())
        pages = loaded(dashboard_of(federation.coordinator))
    parties = [loaded(node.log.read_text()) for node in federation.parties]
    aggregators = [loaded(node.log.read_text()) for node in federation.aggregators]
    lead = loaded(federation.coordinator.log.read_text())
    for party in parties:
        assert rooms(party) == NODE | {"learning", "models", "compute", "party"}
        assert not libraries(party) & (WEB | HEAVY)
    for aggregator in aggregators:
        assert rooms(aggregator) == NODE | {"aggregator"}
        assert not libraries(aggregator) & (WEB | HEAVY)
    assert rooms(lead) == NODE | {"learning", "models", "algorithms", "coordinator"}
    assert not libraries(lead) & (WEB | HEAVY)
    # Cards of finished models are drawn there: learning has them, and algorithms says which round was kept.
    assert rooms(pages) == NODE | {"learning", "models", "algorithms", "coordinator", "dashboard", "web"}
    assert {"starlette", "uvicorn"} <= libraries(pages), "what the others are to be without is seen where it is"
    assert not libraries(pages) & {"scipy", "dp_accounting"}


def test_the_process_that_verifies_a_manifest_holds_no_transport(manifest: Manifest) -> None:
    """It accounts, in every role's stead, and ends."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "parley.federation.meaning"],
        input=manifest.canonical, capture_output=True, check=True, env={**os.environ, **LOUD},
    )  # fmt: skip
    assert b"meaning" in done.stdout
    found = loaded(done.stderr.decode())
    assert rooms(found) == {"errors", "privacy", "mpc", "federation"}
    assert not libraries(found) & (WEB | {"grpc", "google"})
    assert "scipy" in libraries(found)
