"""`auto`, with nothing tuned, on pictures: what a user gets who says a model and an ε.

    OMP_NUM_THREADS=1 python benchmarks/auto_pictures.py DATA --pictures fashion-mnist --model scattering --epsilon 1.2

DATA holds mnist/, fashion-mnist/ and cifar10/ as their publishers' files, compressed or not. The model is `scattering`
(softmax on the schema's transform; CIFAR-10's features pooled to 4 x 4), `plain` (softmax on pixels) or a module, such
as torch:parley.networks.mnist:cnn. Ten parties, the exact integers of a party and the servers' law of noise, δ = 1e-5,
the certificate's terms inside ε, seeds 0, 1, 2. One line of JSON for each seed: error and loss on the test set.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from parley.algorithms.registry import build_algorithm, setting_of
from parley.algorithms.regularisers import Regulariser
from parley.learning.evaluation import evaluate
from parley.learning.holding import Layout, described
from parley.learning.readers import Data, read
from parley.learning.records import Records, encode
from parley.learning.rows import Rows
from parley.models.registry import open_model
from parley.mpc.parts import parts_of
from parley.privacy.mechanism import Unit
from parley.research.experiments.images import found, pictures
from parley.study.manifests import least_noise
from parley.study.simulation import Federation, split

DELTA = 1e-5
PARTIES = 10
CLASSES = [str(number) for number in range(10)]
SHAPES = {"mnist": [1, 28, 28], "fashion-mnist": [1, 28, 28], "cifar10": [3, 32, 32]}
SPREADS: dict[str, dict[str, Any]] = {
    "mnist": {"centre": 33, "spread": 79},
    "fashion-mnist": {"centre": 33, "spread": 79},
    "cifar10": {"centre": 120, "spread": 64},
}
"""What pixels are to a network: near the mean and the deviation of MNIST's, and of natural pictures'."""
ROWS_AT_ONCE = 1000


def files(name: str, folder: Path) -> tuple[Data, Data]:
    """The training set and the test set, as read."""
    if name == "cifar10":
        return pictures(name, folder)
    pairs = [[f"{name}/{part}-{what}-ubyte" for what in ("images-idx3", "labels-idx1")] for part in ("train", "t10k")]
    train, test = (read([found(folder, each) for each in pair], Layout("idx"), "label") for pair in pairs)
    return train, test


def tables(name: str, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """[schema] and [model], as a study has them."""
    shape = SHAPES[name]
    features: dict[str, Any] = {"count": int(np.prod(shape)), "low": 0, "high": 255, "centre": 0, "spread": 255}
    schema = {
        "format": "npz", "features": features, "bits": 6, "intercept": True,
        "target": {"name": "label", "kind": "classes", "classes": CLASSES},
    }  # fmt: skip
    if model == "plain":
        return schema, {"kind": "softmax"}
    if model == "scattering":
        scattering = {"kind": "scattering", "shape": shape, "groups": 27, "pool": 4 if name == "cifar10" else 0}
        return {**schema, "bits": 4, "transform": scattering}, {"kind": "softmax"}
    return {**schema, "features": {**features, **SPREADS[name]}, "intercept": False}, {"kind": model, "input": shape}


def error_of(model: Any, records: Records, theta: Any) -> tuple[float, float]:
    """Error and loss, a thousand records at a time: rows of features are long."""
    rows: Rows = records.rows
    wrong = loss = 0.0
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = records.select(np.arange(start, min(start + ROWS_AT_ONCE, len(rows))))
        quality = evaluate(model, part, theta, Regulariser(), "classes")
        wrong += (quality.error or 0.0) * len(part.rows)
        loss += quality.loss * len(part.rows)
    return wrong / len(rows), loss / len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--pictures", choices=tuple(SHAPES), default="mnist")
    parser.add_argument("--model", default="scattering")
    parser.add_argument("--epsilon", type=float, default=1.2)
    parser.add_argument("--own", type=float, default=0.0, help="what each server adds by itself: 0, 0.25, 0.5 or 1")
    parser.add_argument("--recipe", default="by rule")
    parser.add_argument("--seed", type=int, action="append", help="0, 1 and 2 where none is given")
    given = parser.parse_args()
    body, described_model = tables(given.pictures, given.model)
    layout, schema = described(body)
    train, test = (encode(part, schema, layout) for part in files(given.pictures, given.data))
    model = open_model(described_model, schema)
    table = {"name": "auto", "recipe": given.recipe}
    setting = setting_of(len(train.rows), model, given.epsilon, DELTA, schema, described_model["kind"])
    plan = build_algorithm(table, Regulariser()).plan(setting)
    parts = parts_of("semi-honest", given.own)
    sizes = {party: each.units for party, each in split(train, PARTIES, 0).items()}
    mechanism, precision, _ = least_noise(
        plan, sizes, Unit(), given.epsilon, DELTA, "pld", model.dimension, parts
    )  # fmt: skip
    for seed in given.seed or (0, 1, 2):
        algorithm = build_algorithm(table, Regulariser())
        algorithm.plan(setting)
        started = time.process_time()
        parties = split(train, PARTIES, seed)
        run = Federation(algorithm, plan, model, parties, mechanism, seed, precision=precision, parts=parts)
        theta = run.run().theta
        error, loss = error_of(model, test, theta)
        told = {
            "pictures": given.pictures, "model": given.model, "epsilon": given.epsilon, "own": given.own, "seed": seed,
            "recipe": given.recipe, "dimension": model.dimension, "batch": plan.batch, "rounds": mechanism.releases,
            "error": round(error, 5), "loss": round(loss, 4), "cpu_seconds": round(time.process_time() - started, 1),
        }  # fmt: skip
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
