"""Frozen extractors at a node, each in a process of its own (`parley.models.child`). No torch in this one.

Each is allowed by the node's policy, its installed bytes have the digest that the manifest names, and it is opened on
public inputs, all before its process has a record. Features are there at a moment that public facts fix: so many
chunks, at the speed of public inputs, with a margin; longer if it was not enough (`parley.learning.slots`).
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parley.federation.errors import ManifestError
from parley.federation.manifest import Manifest
from parley.learning.errors import ModelError
from parley.learning.schema import Schema
from parley.learning.slots import Pace
from parley.learning.transforms import Extractor
from parley.models.admitted import require_allowed
from parley.models.apart import MARGIN, PATIENCE_SECONDS, SHORTEST_SLOT
from parley.models.child import Child, ModuleLostError, ModuleRefusedError
from parley.models.extractor_spec import extractor_to_json, require_extractor

Singles = NDArray[np.float32]
LONGEST_SECONDS = 86_400.0
"""For the features of one piece of a party's records."""


@dataclass
class Process:
    """One extractor's."""

    child: Child
    transform: Extractor
    chunk: int
    chunk_seconds: float
    pace: Pace = field(default_factory=Pace)

    @classmethod
    def start(cls, transform: Extractor, threads: int = 1) -> "Process":
        child = Child(threads)
        try:
            header = {"ask": "extractor", "transform": extractor_to_json(transform), "threads": threads}
            found = child.ask(header, seconds=PATIENCE_SECONDS).header
            chunk, seconds = found["chunk"], found["chunk_seconds"]
            if type(chunk) is not int or chunk < 1 or not isinstance(seconds, float) or not 0 < seconds < math.inf:
                raise ModuleLostError("the extractor's process does not answer what it was asked")
        except BaseException:
            child.close()
            raise
        return cls(child, transform, chunk, seconds)

    def __call__(self, values: Singles) -> Singles:
        due = (("float32", (len(values), self.transform.columns)),)
        # One record that the extractor fails on is found by halves (parley.models.extractor).
        passes = MARGIN * math.ceil(len(values) / self.chunk) + 2 * math.ceil(math.log2(self.chunk)) + 2
        slot = max(SHORTEST_SLOT, passes * self.chunk_seconds)
        began = time.monotonic()
        answer = self.child.ask({"ask": "features"}, (values,), due, seconds=LONGEST_SECONDS)
        leaves = began + self.pace.leaves(slot, time.monotonic() - began)
        time.sleep(max(0.0, leaves - time.monotonic()))
        found: Singles = answer.arrays[0]
        return found


class ExtractorsApart:
    """An `Extract` over processes."""

    def __init__(self, processes: Mapping[Extractor, Process]) -> None:
        self._processes = dict(processes)

    def __call__(self, transform: Extractor, values: Singles) -> Singles:
        if transform not in self._processes:
            raise ModelError(f"{transform.kind} was not opened before records were read: this is a defect, report it")
        return self._processes[transform](values)

    def close(self) -> None:
        for each in self._processes.values():
            each.child.close()


def extractors_of(manifest: Manifest, schema: Schema, allowed: Mapping[str, str]) -> ExtractorsApart | None:
    """Checked and without a record; None where a manifest names no code for its features. A ManifestError says why."""
    wanted = [each for each in schema.transform if isinstance(each, Extractor)]
    if not wanted:
        return None
    require_allowed(manifest, allowed)
    started: dict[Extractor, Process] = {}
    for each in wanted:
        where = f"schema.transform[{schema.transform.index(each)}]"
        try:
            require_extractor(each)
            started[each] = Process.start(each)
        except (ModelError, ModuleRefusedError, ModuleLostError) as error:
            ExtractorsApart(started).close()
            raise ManifestError(f"{where}.kind", str(error)) from None
    return ExtractorsApart(started)
