"""A coordinator with a public test set, and a model file that its runs start from."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from parley.coordinator.result import write_model
from parley.coordinator.starts import keep_start
from parley.federation.manifest import Manifest
from parley.learning.model_archive import read_archive
from tests.support import documents
from tests.support.lead import Lead

THETA = np.array([1.0, -2.0, 0.25])
PUBLIC = "age,pulse,sick\n85,40,1\n80,50,1\n75,60,1\n30,200,0\n35,190,0\n40,180,0\n"
"""THETA tells these apart, so that every step towards zero, which is all that sums of zero make, is a worse model."""
LAYOUT = "units = 6\n" + documents.SCHEMA.partition("units = 300\n")[2]


def model_file(path: Path, **changes: Any) -> Path:
    """Of a finished run with the columns of `documents.BODY`, or with some changed."""
    made = documents.manifest(run="earlier", **changes)
    write_model(path, np.resize(THETA, made.model.dimension), made, documents.meaning(run="earlier", **changes))
    return path


def starting(path: Path) -> dict[str, Any]:
    """The fields of a manifest that starts there."""
    return {"start": {"digest": read_archive(path)[2]["digest"], "private": True}}


@contextlib.contextmanager
def lead_with_public_set(folder: Path) -> Iterator[Lead]:
    (folder / "public.csv").write_text(PUBLIC)
    (folder / "layout.toml").write_text(LAYOUT)
    lead = Lead(folder, evaluation=(folder / "public.csv",), layout=folder / "layout.toml")
    try:
        yield lead
    finally:
        lead.close()


def warm_run(lead: Lead, folder: Path, run: str, **changes: Any) -> Manifest:
    """A run from the model file, whose first round waits for contributions."""
    path = folder / "start.npz"
    if not path.exists():
        model_file(path)
    changes = {**starting(path), **changes}
    keep_start(documents.manifest(run=run, **changes), path, lead.folder / "state")
    return lead.running(run, **changes)
