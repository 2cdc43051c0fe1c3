"""A user's package of modules for tests, some of which do what no module should, once a file is there."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.learning.schema import Schema, schema_from_json
from parley.models.module_spec import ModuleSpec, digest_of

COLUMNS, CLASSES = 6, 3
SCHEMA: dict[str, Any] = {
    "features": {"count": COLUMNS, "low": 0, "high": 1},
    "target": {"name": "kind", "kind": "classes", "classes": ["a", "b", "c"]},
    "bits": 4,
}
SOURCE = '''
import os
import sys
import time

import torch
import torch.nn as nn


class Net(nn.Module):
    """Two layers; what it does besides is told by its options."""

    def __init__(self, width, flag, does, columns, outputs):
        super().__init__()
        self.first, self.last = nn.Linear(columns, width), nn.Linear(width, outputs)
        self.flag, self.does = flag, does

    def forward(self, rows):
        # Of every process, or of one.
        if self.does and (os.path.exists(self.flag) or os.path.exists(f"{self.flag}-{os.getpid()}")):
            DEEDS[self.does]()
        return self.last(torch.tanh(self.first(rows)))


def hang():
    while True:
        pass


def speak():
    print("a" * 70_000, flush=True)
    os.write(1, b"b" * 70_000)
    os.write(2, b"c" * 70_000)


def fork():
    if os.fork() == 0:
        return  # two processes go on from here


def leave():
    raise SystemExit(3)


DEEDS = {
    "crash": os.abort,
    "exit": lambda: os._exit(3),
    "leave": leave,
    "hang": hang,
    "speak": speak,
    "fork": fork,
    "wait": lambda: time.sleep(0.02),
    "clock": lambda: time.time(),
}


def build(width=5, flag="", does="", columns=6, outputs=3):
    return Net(width, flag, does, columns, outputs)


def fails():
    raise RuntimeError("no such file")


def exits():
    os._exit(7)


def mixes():
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))


class Looked(nn.Module):
    """The first column is an index, of which the table has none beyond the schema's bounds."""

    def __init__(self, entries):
        super().__init__()
        self.table, self.last = nn.Embedding(entries, 4), nn.Linear(9, 3)

    def forward(self, rows):
        found = self.table((rows[:, 0] * 4).long())
        return self.last(torch.cat([found, rows[:, 1:]], dim=1))


def looked(entries=5):
    return Looked(entries)
'''


@dataclass(frozen=True)
class OwnPackage:
    """Installed for this test: on the path of every process that it starts."""

    folder: Path
    name: str

    @property
    def flag(self) -> Path:
        """Once it is there, modules do what their options say."""
        return self.folder.parent / f"{self.name}.flag"

    def spec(self, function: str = "build", **options: Any) -> ModuleSpec:
        """With its digest."""
        found = ModuleSpec.of({"kind": f"torch:{self.name}.nets:{function}", "options": options}, schema())
        return replace(found, digest=digest_of(found, CLASSES))


def schema() -> Schema:
    return schema_from_json(SCHEMA)


def own_package(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str = "users_models") -> OwnPackage:
    """Beside nothing else: outside the repository."""
    home = folder / "installed" / name
    home.mkdir(parents=True)
    (home / "__init__.py").write_text("")
    (home / "nets.py").write_text(SOURCE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(home.parent), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(home.parent)
    return OwnPackage(home, name)


def records(count: int = 40) -> Records:
    """Made up."""
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 16, (count, COLUMNS)).astype(np.uint8)
    return Records(DenseRows.of(rows, 4), rng.integers(0, CLASSES, count).astype(np.float64))
