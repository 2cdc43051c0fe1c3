"""A user's own module at the workers: each opens it from the bytes that the digest is of; all sums are as here."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.compute.cluster import Cluster
from parley.compute.engine import Named, RayEngine
from parley.compute.errors import EngineStoppedError, WorkerFailedError
from parley.learning.encoding import Scale
from parley.learning.engine import Here
from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.learning.schema import schema_from_json
from parley.models.registry import open_model
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Terms
from parley.privacy.sampling import Batch
from tests.support import foremen

pytestmark = pytest.mark.slow
pytest.importorskip("torch")
KIND = "torch:parley.networks.mnist:cnn"
SCHEMA = {
    "features": {"count": 784, "low": 0.0, "high": 1.0}, "intercept": False, "bits": 8,
    "target": {"name": "y", "kind": "classes", "classes": [str(each) for each in range(10)]},
}  # fmt: skip
TERMS, SCALE = Terms(0.5, 0.05, 0.5, 0.5), Scale(2.0**-12, 1 << 11)


def setting() -> tuple[Records, Any, Named]:
    rng = np.random.default_rng(3)
    rows = DenseRows.of(rng.integers(0, 256, (130, 784)).astype(np.int16), 8)
    records = Records(rows, rng.integers(0, 10, 130).astype(np.float64))
    model: Any = open_model({"kind": KIND, "input": [1, 28, 28]}, schema_from_json(SCHEMA))
    return records, model, Named({"kind": KIND, **model.spec.body()}, SCHEMA, model.dimension)


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("real", [False, True])
def test_a_module_answers_to_the_bit_on_any_number_of_workers(tmp_path: Path, workers: int, real: bool) -> None:
    if real:
        if workers == 1:
            pytest.skip("one worker of a cluster of its own: tests/compute/test_foreman.py has that")
        pytest.importorskip("ray")
    records, model, named = setting()
    rng = np.random.default_rng(4)
    theta = model.initial(np.arange(4, dtype=np.uint64))
    points = (theta, theta + 1e-2 * rng.standard_normal(len(theta)))
    batch = Batch(rng.permutation(130)[:64].astype(np.int64), rng.random(64) < 0.8)
    lattice = Lattice(1.0)
    expected = Here(records, model).gradients(batch, points, TERMS, lattice, SCALE)
    more: dict[str, Any] = {} if real else {"command": foreman(tmp_path)}
    engine = RayEngine(Cluster(workers=workers), records, named, **more)
    try:
        assert np.array_equal(engine.gradients(batch, points, TERMS, lattice, SCALE), expected)
        assert expected.any()
    finally:
        engine.close()


RAISING = """
import torch
from torch import nn


class Net(nn.Module):
    \"\"\"A cell of 7 / 256 is beyond the table; at the schema's bounds nothing is.\"\"\"

    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Embedding(3, 4), nn.Linear(9, 10)

    def forward(self, rows):
        place = 99 * ((256 * rows[:, 0]).round() == 7).long()
        return self.last(torch.cat([self.table(place), rows[:, 1:6]], dim=1))


def build():
    return Net()
"""


def test_one_record_that_makes_it_raise_counts_as_none_and_of_two_the_run_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "site" / "raising_models"
    home.mkdir(parents=True)
    (home / "__init__.py").write_text(RAISING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(home.parent), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(home.parent)
    body = {"kind": "torch:raising_models:build"}
    model: Any = open_model(body, schema_from_json(SCHEMA))
    named = Named({**body, **model.spec.body()}, SCHEMA, model.dimension)
    values = np.random.default_rng(3).integers(8, 256, (40, 784)).astype(np.int16)
    targets = (np.arange(40) % 10).astype(np.float64)
    batch, theta = Batch(np.arange(40), np.ones(40, np.bool_)), model.initial(np.arange(4, dtype=np.uint64))
    told = ((theta,), Terms(0.0, 1.0, 1.0, 0.5), Lattice(1.0), SCALE)

    def asked(raising: int) -> Any:
        values[:raising, 0] = 7
        records = Records(DenseRows.of(values, 8), targets)
        engine = RayEngine(Cluster(workers=1), records, named, command=foreman(tmp_path))
        monkeypatch.setattr(engine, "_measured", lambda *told: 0.08)
        try:
            return engine.gradients(batch, *told), engine.slots.seconds
        finally:
            engine.close()

    found, slots = asked(1)
    without = Batch(batch.indices, batch.indices > 0)
    wanted = Here(Records(DenseRows.of(values, 8), targets), model).gradients(without, *told)
    assert np.abs(found - wanted).max() <= 1
    # The list is of three chunks of 16: room for a search of 16 passes of one, beside twice the time.
    assert list(slots.values()) == [pytest.approx(0.6)]
    with pytest.raises(WorkerFailedError, match="TooManyFailError"):
        asked(2)


def test_a_worker_whose_package_has_another_digest_opens_nothing(tmp_path: Path) -> None:
    records, _, named = setting()
    other = Named({**named.model, "digest": "sha256:" + "0" * 64}, SCHEMA, named.dimension)
    heard: list[str] = []
    engine = RayEngine(Cluster(workers=1), records, other, command=foreman(tmp_path))

    def say(error: Exception) -> None:
        heard.append(str(error))
        engine.stop.set()

    engine.say = say
    with pytest.raises(EngineStoppedError):
        engine.start()
    engine.close()
    assert heard == ["a worker of the cluster is not ready (ModelError)"]


def foreman(folder: Path) -> tuple[str, ...]:
    return (sys.executable, "-P", foremen.__file__, "none", str(folder / "mark"))
