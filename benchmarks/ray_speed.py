"""Records a second of one party with 1 and 2 workers of a Ray cluster, beside one process: two-point queries, exact.

OMP_NUM_THREADS=1 python benchmarks/ray_speed.py --workers 1 2

Made-up images of 28 x 28 in bytes. A figure is of one question from the party's process to the sum, lists and answers
on their way included, without the wait for the end of its slot. `in vain` is the share of padded rows: what a public
length costs. Workers are processes of this machine, so that two of them need two cores that nobody else uses.
"""

import argparse
import os
import time
from typing import Any

import numpy as np

from parley.compute.cluster import Cluster
from parley.compute.engine import Named, RayEngine
from parley.compute.questions import Question
from parley.compute.shards import chunk_length, list_length
from parley.learning.encoding import Scale
from parley.learning.engine import Here
from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.learning.schema import schema_from_json
from parley.models.registry import open_model
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Terms
from parley.privacy.sampling import Batch

RECORDS = 20_000
TERMS, SCALE, LATTICE = Terms(0.5, 0.05, 0.5, 0.5), Scale(2.0**-12, 1 << 11), Lattice(1.0)
SCHEMA = {
    "features": {"count": 784, "low": 0.0, "high": 1.0}, "intercept": False, "bits": 8,
    "target": {"name": "y", "kind": "classes", "classes": [str(each) for each in range(10)]},
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "softmax, 7,840": {"kind": "softmax"},
    "MNIST CNN, 26,010": {"kind": "torch:parley.networks.mnist:cnn", "input": [1, 28, 28]},
}


def measured(name: str, batch: int, workers: list[int], repeats: int) -> None:
    rng = np.random.default_rng(0)
    rows = DenseRows.of(rng.integers(0, 256, (RECORDS, 784)).astype(np.int16), 8)
    records = Records(rows, rng.integers(0, 10, RECORDS).astype(np.float64))
    model: Any = open_model(MODELS[name], schema_from_json(SCHEMA))
    body = model.spec.body() if hasattr(model, "spec") else MODELS[name]
    theta = model.initial(np.arange(model.dimension, dtype=np.uint64))
    points = (theta, theta + 1e-3)
    drawn = Batch(rng.permutation(RECORDS)[:batch].astype(np.int64), np.ones(batch, np.bool_))
    here, expected = Here(records, model), None
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        expected = here.gradients(drawn, points, TERMS, LATTICE, SCALE)
        seconds.append(time.perf_counter() - began)
    print(f"| {name} | {batch:,} | one process | {batch / min(seconds):,.0f} | – | – |", flush=True)
    alone = 0.0
    for count in workers:
        engine = RayEngine(Cluster(workers=count), records, Named(body, SCHEMA, model.dimension))
        try:
            found = engine.gradients(drawn, points, TERMS, LATTICE, SCALE)
            assert expected is not None
            assert np.array_equal(found, expected), "not the sum that one process makes"
            chunk = chunk_length(batch, 784)
            length = list_length(batch, RECORDS, count, chunk)
            question = Question("gradients", LATTICE, SCALE, TERMS)
            best = min(engine._measured(question, points, length, chunk) for _ in range(repeats))
        finally:
            engine.close()
        alone = alone or batch / best
        vain = 1 - batch / (count * length)
        gain = f"{batch / best / alone:.2f}"
        print(f"| {name} | {batch:,} | {count} workers | {batch / best:,.0f} | {gain} | {vain:.0%} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batches", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| model, parameters | batch | who | records/s | over one worker | in vain |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in MODELS:
        for batch in options.batches:
            measured(name, batch, options.workers, options.repeats)


if __name__ == "__main__":
    main()
