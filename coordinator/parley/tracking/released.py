"""What a tracker may be told: one list of names, and everything else stays.

All of it is public or noised already: figures on the public set, the norm of the noised estimate, which every screen
shows, ε by the run's accountant, the manifest's own words, and at the end the card and the model. Nothing of records,
nothing before noise, nothing that is marked "not private", no figure over seeds; those never reach the coordinator.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from parley.coordinator.store import RoundRecord, RunRow
from parley.federation.manifest import Manifest

PUBLIC = (
    "loss", "objective", "error", "accuracy", "auc", "average_precision", "brier", "calibration_slope", "rmse", "mae",
    "r2",
)  # fmt: skip
"""Figures on the public set."""
OF_A_CLASS = re.compile(r"(auc)\[(.{1,100})\]")
"""The same of one class of a target."""
PARAMETERS = (
    "run", "federation", "manifest", "model", "parameters", "algorithm", "epsilon", "delta", "accountant",
    "epsilon_if_a_server_lies", "rounds_planned", "parties", "start", "stop_early",
)  # fmt: skip
EPSILON = "spent/epsilon"
NORMS = {"estimator_norm": "released/estimator_norm", "noise_norm": "released/noise_norm"}


@dataclass(frozen=True)
class Point:
    """One number of one round."""

    name: str
    value: float
    step: int
    """Rounds made."""
    at: float
    """Seconds since the epoch."""


def points(record: RoundRecord) -> Iterator[Point]:
    """What a round has released; a name that is not on the list is left out."""
    step = record.round + 1
    for name, value in record.evaluation.items():
        if (known := _public(name)) is not None and _is_number(value):
            yield Point(known, float(value), step, record.at)
    for name, shown in NORMS.items():
        if _is_number(value := getattr(record, name)):
            yield Point(shown, float(value), step, record.at)


def parameters(row: RunRow, manifest: Manifest) -> dict[str, str]:
    """What a run is, in its manifest's words and by the verified claim."""
    found: Mapping[str, Any] = {
        "run": manifest.run,
        "federation": manifest.federation,
        "manifest": manifest.digest.hex(),
        "model": manifest.model.kind,
        "parameters": manifest.model.dimension,
        "algorithm": manifest.algorithm.name,
        "epsilon": row.claim.get("epsilon"),
        "delta": manifest.guarantee.delta,
        "accountant": manifest.guarantee.accountant,
        "epsilon_if_a_server_lies": row.claim.get("epsilon_if_a_server_lies"),
        "rounds_planned": manifest.releases,
        "parties": len(manifest.parties),
        "start": manifest.start.digest if manifest.start else None,
        "stop_early": f"patience {manifest.stop_early.patience}" if manifest.stop_early else None,
    }
    return {name: str(found[name]) for name in PARAMETERS if found[name] is not None}


def _public(name: str) -> str | None:
    if name in PUBLIC:
        return f"public/{name}"
    of_one = OF_A_CLASS.fullmatch(name)
    return f"public/{of_one[1]}/{_spelled(of_one[2])}" if of_one else None


def _spelled(label: str) -> str:
    """A class's label in letters that every tracker takes in a name."""
    return re.sub(r"[^A-Za-z0-9_. -]", "_", label)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
