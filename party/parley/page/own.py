"""What this institution's records look like at a run's newest public model: a process that says it once, and ends.

    echo '{"node": "hospital-a", "run": "9f86…"}' | python -m parley.page.own

Loss and clipped fraction of one's own records are a release to whoever sees them, so they are for this institution's
eyes: they go through a pipe to the page that asked, into its memory and nowhere else. A run knows nothing of it: the
records are read again here, whole, and no batch is drawn.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.errors import ParleyError
from parley.federation.code import is_code
from parley.federation.manifest import Manifest
from parley.learning.contributor import Query
from parley.learning.exclusion import null_rows, read_list
from parley.learning.fit import fit
from parley.learning.metrics import outputs
from parley.learning.models import Model
from parley.learning.records import Records, encode
from parley.node.data_sets import DataSet
from parley.page.folder import Folder
from parley.party.data import data_set_of, understand
from parley.party.exclusions import excluded_of
from parley.party.newest import newest_at
from parley.party.process import party_node
from parley.party.seal import Seals

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
NICENESS = 15
MOST_COLUMNS = 200
NUMBERS_AT_ONCE = 1 << 22


def own_figures(folder: Folder, manifest: Manifest) -> dict[str, Any]:
    """Of one run's data set, as it was sealed."""
    data = data_set_of(folder.settings, manifest, folder.name)
    sealed = Seals(folder.settings, data).sealed()
    if sealed is None:
        return {"refused": f"the records are not sealed: `parley schema check {folder.path}`"}
    found = fit(sealed.read(data), sealed.holding)
    cut = sorted(((count, name) for name, count in found.adjusted.items() if count), reverse=True)
    answer: dict[str, Any] = {
        "records": found.records,
        "units": found.units,
        "cut": [[name, count] for count, name in cut[:MOST_COLUMNS]],
    }
    answer["excluded"] = [] if data.excluded is None else [excluded_of(folder.settings, data, keep=False).summary]
    return answer | _at_the_newest(folder, manifest, data, sealed)


def _at_the_newest(folder: Folder, manifest: Manifest, data: DataSet, sealed: Any) -> dict[str, Any]:
    query = newest_at(folder.settings.newest(manifest.digest))
    if query is None or not query.points:
        return {"clipped_why": "no round of this run was asked here yet"}
    if is_code(manifest.model.kind) or manifest.schema.body.get("transform"):
        return {"clipped_why": "of an institution’s own code nothing is computed outside its run"}
    understood = understand(manifest)
    if any(point.shape != (understood.model.dimension,) for point in query.points):
        return {"clipped_why": "the newest model on this machine is not of this run’s shape"}
    raw = sealed.read(data)
    listed = read_list(data.excluded).names if data.excluded is not None else frozenset[str]()
    null = null_rows(raw, sealed.holding, listed) if listed else None
    records = encode(raw, understood.schema, sealed.holding.layout, null=null)
    round_index, kind, scale = query.round_index, query.kind, query.scale
    query, frame = query.unframed(records.rows.dimension)
    if frame is not None:
        records = replace(records, rows=frame.rows(records.rows))
    with np.errstate(all="ignore"):
        return _figures(manifest, understood.model, records, query, kind, round_index, scale)


def _figures(
    manifest: Manifest, model: Model, records: Records, query: Query, kind: str, round_index: int, scale: float
) -> dict[str, Any]:
    answer: dict[str, Any] = {"loss_of": f"round {round_index + 1}"}
    if not query.points:  # means of feature rows: about no model
        return answer | {"clipped_why": f"the newest question was for {kind}, which is about no model"}
    point = query.points[0]
    losses, _ = outputs(model, records, point)
    sound = losses[np.isfinite(losses) & _counting_rows(records)]
    answer["loss"] = float(sound.mean()) if len(sound) else None
    if query.kind != "gradient":
        return answer | {"clipped_why": f"the newest question was for {kind}, not for a gradient"}
    terms = manifest.mechanism.clip.terms(round_index).scaled(scale)
    norms = _norms_of_units(model, records, point)
    norms = norms if records.null is None else norms[~records.null]
    return answer | {"clipped": float(np.mean(~(norms <= terms.gradient_norm))) if len(norms) else None}


def _counting_rows(records: Records) -> Flags:
    """bool[rows]: of people who are not left out on request."""
    counting = np.ones(len(records.rows), np.bool_)
    if records.null is not None:
        gone = records.members[records.null] if records.unit_column else np.flatnonzero(records.null)
        counting[gone[gone >= 0]] = False
    return counting


def _norms_of_units(model: Model, records: Records, point: Floats) -> Floats:
    """Length of each unit's whole gradient, before any clip; what is not finite counts as longer."""
    found = []
    width = max(1, records.records_per_unit * (model.dimension if records.unit_column else records.rows.dimension))
    size = max(1, NUMBERS_AT_ONCE // width)
    for start in range(0, records.units, size):
        chosen = np.arange(start, min(start + size, records.units))
        if records.unit_column is None:
            found.append(model.gradient_norms(records.rows.take(chosen), records.targets[chosen], point))
            continue
        members = records.unit_members(chosen)
        flat = np.maximum(members, 0).ravel()
        gradients = model.gradients(records.rows.take(flat), records.targets[flat], point)
        of_units = np.where((members >= 0)[:, :, None], gradients.reshape(*members.shape, -1), 0.0).sum(axis=1)
        found.append(np.linalg.norm(of_units, axis=1))
    return np.concatenate(found)


def main() -> None:
    """One question in, one line of JSON out; nothing on standard error, where a log may keep it."""
    os.nice(NICENESS)
    asked = json.loads(sys.stdin.buffer.read())
    try:
        folder = Folder(party_node(Path(asked["node"])))
        held = next(each for each in folder.read().states if each.digest.hex() == asked["run"])
        manifest = folder.manifest(held)
        answer = {"refused": "it is of an earlier version"} if manifest is None else own_figures(folder, manifest)
    except (ParleyError, OSError) as error:
        answer = {"refused": str(error)[:500]}
    except Exception as error:  # its message may quote a record
        answer = {"refused": f"it cannot be computed ({type(error).__name__})"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
