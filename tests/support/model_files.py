"""Model files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.coordinator.result import write_model
from parley.coordinator.store import RoundRecord, RunStore
from tests.support.documents import manifest, meaning

THETA = np.array([1.0, -2.0, 0.25])
EVALUATION = {"accuracy": 0.75, "auc": None}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_model(tmp_path / "model.npz", THETA, manifest(), meaning(), EVALUATION)
    return tmp_path / "model.npz"


def rewritten(path: Path, **arrays: Any) -> None:
    with np.load(path) as found:
        kept = {name: found[name] for name in found.files}
    np.savez(path, **{**kept, **arrays})


def finished(folder: Path, *runs: str) -> RunStore:
    """A coordinator's folder with runs that have a result."""
    (folder / "state").mkdir(parents=True)
    store = RunStore(folder / "state/runs.sqlite")
    for run in runs:
        each = manifest(run=run)
        store.submit(each.digest, run, each.canonical)
        store.set_claim(each.digest, meaning(run=run).as_json())
        last = RoundRecord(
            round=39,
            at=1.0,
            seconds=0.1,
            waited_seconds=0.1,
            agreed_seconds=0.1,
            noised_seconds=0.1,
            stepped_seconds=0.1,
            contributors=list(each.parties),
            missing=[],
            estimator_norm=1.0,
            noise_norm=1.0,
            bytes_down=100,
            bytes_up=100,
            evaluation={},
        )
        store.finish(each.digest, THETA, {"loss": 0.5, "error": 0.25, "accuracy": 0.75}, last)
    return store
