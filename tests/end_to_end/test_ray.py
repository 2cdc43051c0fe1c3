"""A party whose sums are computed by workers, in a federation of real processes: to its end, whoever is killed."""

import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from parley.bench.train_data import study, write_party
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation
from tests.support.descendants import descendants, named, processes
from tests.support.until import until

pytestmark = pytest.mark.slow
PARTIES, DIMENSION, ROUNDS = 3, 40, 120
COMPUTE = '\n[compute]\nbackend = "ray"\nworkers = 2\n'


def test_a_run_goes_on_after_a_worker_and_then_the_whole_cluster_were_killed(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    manifest = replace(study("over-ray", PARTIES, DIMENSION, ROUNDS), deadline_seconds=600.0)
    data = {party: [tmp_path / f"{party}.libsvm"] for party in manifest.parties}
    for place, (path,) in enumerate(data.values()):
        write_party(path, place, DIMENSION)
    with LocalFederation(tmp_path / "nodes", manifest, data) as federation:
        party = federation.parties[0]
        with (party.folder / "node.toml").open("a") as file:
            file.write(COMPUTE)
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)
        assert party.process is not None
        root = party.process.pid

        def made() -> int:
            return len(coordinator.store.history(digest))

        until(lambda: made() >= 3)
        assert len(named(root, "ray::ShardWorker")) == 2
        os.kill(named(root, "ray::ShardWorker")[0], signal.SIGKILL)
        before = made()
        until(lambda: made() >= before + 3)
        (foreman,) = named(root, "parley.compute")
        whole = descendants(foreman)
        os.kill(foreman, signal.SIGKILL)
        before = made()
        until(lambda: not whole.keys() & processes().keys())
        *_, (row, _) = coordinator.follow(digest)
        assert row.state is State.finished, (row.outcome, federation.coordinator.tail(), party.tail())
        assert before < ROUNDS
        theta, records = coordinator.store.theta(digest), coordinator.store.history(digest)
        until(partial(_ended, root))
        log = party.log.read_text()
    assert theta is not None
    assert np.isfinite(theta).all()
    assert [record.round for record in records] == list(range(manifest.releases))
    assert all(record.contributors == sorted(manifest.parties) for record in records)
    assert "the cluster is waited for" in log
    # Killed while it computed or between two questions: its pipe says one of two things.
    assert "the process that speaks with the cluster is lost" in log
    assert "worker 0 of the cluster is lost" in log or "worker 1 of the cluster is lost" in log


def _ended(root: int) -> bool:
    """The run is over: nothing of its cluster is left."""
    return not descendants(root)
