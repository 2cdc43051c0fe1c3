"""Real processes whose parties train a user's own package, and one whose module crashes: it leaves, and stays away."""

import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from parley.bench.train_data import LAYOUT, schema
from parley.bench.train_data import RECORDS as UNITS
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation, NodeProcess
from parley.federation.admission import AdmissionRecord
from parley.federation.manifest import Manifest, Operator
from parley.study.manifests import draft
from tests.end_to_end.conftest import DIMENSION
from tests.support.descendants import named, processes
from tests.support.own_modules import OwnPackage, own_package
from tests.support.until import GIVE_UP_SECONDS, until

pytestmark = pytest.mark.slow
ROUNDS = 30


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnPackage:
    pytest.importorskip("torch")
    return own_package(tmp_path, monkeypatch)


@pytest.fixture
def own(package: OwnPackage, data: dict[str, list[Path]]) -> Manifest:
    """Every party may be missing, down to two."""
    options = {"columns": DIMENSION, "outputs": 1, "flag": str(package.flag), "does": "crash"}
    batch, total = 300, UNITS * len(data)
    return draft(
        run="own", federation="bench", schema=schema(DIMENSION), sizes=dict.fromkeys(data, UNITS),
        model={"kind": f"torch:{package.name}.nets:build", "options": options},
        algorithm={
            "name": "ddp-srm", "gradient_norm": 1.0, "difference_norm": 0.1, "gamma": 0.1, "batch": batch,
            "passes": (2 * ROUNDS - 1) * batch / total, "step": 0.1,
        },
        epsilon=1.0, delta=1e-5, minimum_parties=2, deadline_seconds=60.0,
        aggregators=(Operator("north", "North Trust"), Operator("south", "South Foundation")),
        coordinator=Operator("lead", "Lead Institute"),
    )  # fmt: skip


def modules_of(node: NodeProcess) -> list[int]:
    """Numbers of the processes with a module that this node has started."""
    assert node.process is not None
    return named(node.process.pid, "parley.models")


def test_a_party_whose_module_crashes_leaves_for_good_and_the_others_finish(
    tmp_path: Path, own: Manifest, package: OwnPackage, data: dict[str, list[Path]]
) -> None:
    with LocalFederation(tmp_path / "nodes", own, data, evaluation=data["party-1"], layout=LAYOUT) as federation:
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(own)
        crashing = federation.parties[1]
        until(lambda: len(coordinator.store.history(digest)) >= 2)
        (process,) = modules_of(crashing)
        held = Path(f"/proc/{process}/maps").read_text()
        assert "libtorch" in held
        for node in federation.nodes.values():
            assert node.process is not None
            assert "libtorch" not in Path(f"/proc/{node.process.pid}/maps").read_text(), node.name
        Path(f"{package.flag}-{process}").touch()
        *_, (row, _) = coordinator.follow(digest)
        assert row.state is State.finished, row.outcome
        last = coordinator.store.history(digest)[-1]
        assert last.contributors == ["party-1", "party-3"]
        assert "loss" in last.evaluation
        until(lambda: not any(modules_of(node) for node in federation.nodes.values()))
        log = crashing.tail()
        assert "the round cannot be computed here, this party leaves" in log
        assert "ModuleLostError" in log
        assert str(package.flag) not in log
        crashing.stop()
        record = AdmissionRecord(crashing.folder / "state" / "admissions.sqlite")
        assert record.held(own.run) == (own.digest, True)
        record.close()
        trail = (crashing.folder / "state" / "trail.jsonl").read_text()
        assert 2 <= trail.count('"round.answered"') < ROUNDS


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_party_and_a_coordinator_that_are_stopped_with_all_they_have_started_take_the_run_up_again(
    tmp_path: Path, own: Manifest, data: dict[str, list[Path]], how: signal.Signals
) -> None:
    """As a service manager stops a node: all of its processes are told to end, the module's first; or power fails."""
    with LocalFederation(tmp_path / "nodes", own, data, evaluation=data["party-1"], layout=LAYOUT) as federation:
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(own)
        for node in (federation.parties[0], federation.coordinator):
            made = len(coordinator.store.history(digest))
            until(partial(_made, coordinator, digest, made + 2))
            assert node.process is not None
            (module,) = modules_of(node)
            if how is signal.SIGTERM:
                os.kill(module, how)
                time.sleep(0.5)
                assert module in processes()
            os.kill(node.process.pid, how)
            node.process.wait(GIVE_UP_SECONDS)
            until(partial(_gone, module))
            assert len(coordinator.store.history(digest)) < ROUNDS
            node.start()
            node.wait_ready()
        *_, (row, _) = coordinator.follow(digest)
        assert row.state is State.finished, row.outcome
        records = coordinator.store.history(digest)
        assert [record.round for record in records] == list(range(own.releases))
        assert records[-1].contributors == sorted(own.parties), federation.parties[0].tail()
        for party in federation.parties:
            party.stop()
            record = AdmissionRecord(party.folder / "state" / "admissions.sqlite")
            assert record.held(own.run) == (own.digest, False)
            record.close()
            events = [json.loads(line) for line in (party.folder / "state" / "trail.jsonl").read_text().splitlines()]
            answered = [each["fields"]["round"] for each in events if each["event"] == "round.answered"]
            assert answered == sorted(set(answered)), "a round was answered twice"


def _made(coordinator: Coordinator, digest: bytes, rounds: int) -> bool:
    return len(coordinator.store.history(digest)) >= rounds


def _gone(process: int) -> bool:
    return process not in processes()
