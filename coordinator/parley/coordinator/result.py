"""From a finished run in the coordinator's store to its model file, NODE/models/RUN.npz."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.coordinator.made import Made, made_of
from parley.coordinator.starts import started_from
from parley.coordinator.store import RunRow, RunStore
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.learning.errors import ModelFileError
from parley.learning.model_archive import FORMAT, with_digests, write_archive
from parley.learning.schema import schema_from_json
from parley.learning.transforms import declared
from parley.models.module_spec import module_in_card
from parley.node.software import DISTRIBUTION, software_version, source_digest

Floats = NDArray[np.float64]


def models_of(folder: Path) -> Path:
    """Where a coordinator keeps the models of its runs."""
    return folder / "models"


def model_path(folder: Path, run: str) -> Path:
    """`folder` is the coordinator's."""
    return models_of(folder) / f"{run}.npz"


def write_result(folder: Path, store: RunStore, manifest: Manifest) -> Path | None:
    """The run's model file and card; none for a run without a result. Again after a crash, it writes the same."""
    row, theta = store.get(manifest.digest), store.theta(manifest.digest)
    if row is None or theta is None or not row.claim:
        return None
    path = model_path(folder, manifest.run)
    started = started_from(manifest, folder / "state")
    made = made_of(store, manifest)
    meaning = Meaning(manifest=manifest, **row.claim)
    write_model(path, theta, manifest, meaning, row.evaluation or None, made, started)
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


def write_model(
    path: Path,
    theta: Floats,
    manifest: Manifest,
    meaning: Meaning,
    evaluation: Mapping[str, Any] | None = None,
    made: Made | None = None,
    started: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the file and its card, each in one step; the card is returned.

    `meaning` is the verified one, whose ε is for the whole run and holds for one that was stopped early too, as `made`
    says. `evaluation` is of a PUBLIC set; figures with intervals, and of how many records, have fields of their own.
    `started` is what the card says of the model file that the run started from.
    """
    values = np.ascontiguousarray(theta, np.float64)
    if values.shape != (manifest.model.dimension,) or not np.isfinite(values).all():
        raise ModelFileError(f"theta is {values.shape}, or not finite: give {manifest.model.dimension:,} numbers")
    if meaning.manifest.digest != manifest.digest:
        raise ModelFileError("the verified meaning is of another manifest: verify this one")
    figures = dict(evaluation or {})
    measured = {name: figures.pop(name, None) for name in ("quality", "public_records")}
    body = manifest.as_json()
    description = {"format": FORMAT, "model": body["model"], "schema": body["schema"]}
    mechanism = manifest.mechanism
    card: dict[str, Any] = {
        "format": FORMAT,
        "run": manifest.run,
        "federation": manifest.federation,
        "manifest_digest": manifest.digest.hex(),
        "statement": meaning.statement,
        "epsilon": meaning.epsilon,
        "delta": meaning.delta,
        "security": manifest.noise.parts.security,
        "own": manifest.noise.parts.own,
        "audit": manifest.noise.parts.audit,
        "epsilon_if_a_server_lies": meaning.epsilon_if_a_server_lies,
        "accountant": manifest.guarantee.accountant,
        "unit": mechanism.unit.name,
        "relation": mechanism.relation.value,
        "parties": {party: mechanism.sampler(party, 0).units for party in manifest.parties},
        "aggregators": body["aggregators"],
        "coordinator": body["coordinator"],
        "module": module_in_card(body["model"]),
        "algorithm": manifest.algorithm.name,
        "declared": list(declared(schema_from_json(manifest.schema.body).transform)) or None,
        "records": "private",
        "rounds": made.rounds if made else manifest.releases,
        "rounds_planned": manifest.releases,
        "stop_early": manifest.stop_early.as_json() if manifest.stop_early else None,
        "chosen_round": made.chosen + 1 if made and made.chosen is not None else None,
        "start": dict(started) if started is not None else None,
        "evaluation": figures if evaluation is not None else None,
        **measured,
        "software": {"name": DISTRIBUTION, "version": software_version(), "source_digest": source_digest()},
        "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    card = with_digests(card, values, description)
    write_archive(path, values, description, card)
    return card
