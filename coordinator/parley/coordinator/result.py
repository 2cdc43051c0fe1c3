"""From a finished run in the coordinator's store to its model file, NODE/models/RUN.npz."""

from pathlib import Path

from parley.coordinator.store import RunRow, RunStore
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.learning.errors import ModelFileError
from parley.study.model_file import write_model


def model_path(folder: Path, run: str) -> Path:
    """`folder` is the coordinator's."""
    return folder / "models" / f"{run}.npz"


def write_result(folder: Path, store: RunStore, manifest: Manifest) -> Path | None:
    """The run's model file and card; none for a run without a result. Again after a crash, it writes the same."""
    row, theta = store.get(manifest.digest), store.theta(manifest.digest)
    if row is None or theta is None or not row.claim:
        return None
    path = model_path(folder, manifest.run)
    write_model(path, theta, manifest, Meaning(manifest, **row.claim), row.evaluation or None, row.round)
    return path


def write_from_store(folder: Path, run: str | None) -> Path:
    """For `parley export`, where the file is not there: of a run by name, or of the only one that has a result."""
    store = RunStore(folder / "state" / "runs.sqlite", read_only=True)
    try:
        wanted: list[RunRow] = [row for row in store.runs() if run in (None, row.run)]
        ready = [row for row in wanted if store.theta(row.digest) is not None]
        if len(ready) != 1:
            names = ", ".join(f"{row.run} ({row.state})" for row in store.runs()) or "none"
            what = "more than one model: give --run" if ready else "no model yet: a run has one when it has finished"
            raise ModelFileError(f"{folder} has {what}; its runs: {names}")
        path = write_result(folder, store, Manifest.from_canonical(ready[0].manifest))
        if path is None:
            raise ModelFileError(f"run {ready[0].run} has a result and no verified claim: it is not a private model")
        return path
    finally:
        store.close()
