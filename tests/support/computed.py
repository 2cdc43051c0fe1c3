"""Records, models and questions for engines: what one process computes, and what workers have to compute to the bit."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.compute.cluster import Cluster
from parley.compute.engine import Named, RayEngine
from parley.learning.contributor import Contributor, Encoding, Query
from parley.learning.models import Model
from parley.learning.perceptron import Perceptron
from parley.learning.records import Records
from parley.learning.rows import DenseRows, SparseRows
from parley.learning.schema import schema_from_json
from parley.models.registry import build_model
from parley.privacy.clipping import GradientClip, MomentumClip
from parley.privacy.mechanism import Cohort, Mechanism, Unit
from parley.privacy.sampling import FixedSize, Poisson, Sampler
from parley.study.simulation import SeededRandomness

COLUMNS = 24
FEATURES = {"count": COLUMNS, "low": -1.0, "high": 1.0}
BINARY = {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]}
CLASSES = {"name": "y", "kind": "classes", "classes": ["0", "1", "2", "3"]}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "logistic": ({"kind": "logistic"}, BINARY),
    "softmax": ({"kind": "softmax"}, CLASSES),
    "perceptron": ({"kind": "perceptron", "hidden": [8]}, BINARY),
    "sparse": ({"kind": "logistic"}, BINARY),
    "units": ({"kind": "logistic"}, BINARY),
}


@dataclass(frozen=True)
class Setting:
    """One party's side of a run, without the engine."""

    records: Records
    model: Model
    named: Named
    mechanism: Mechanism
    encoding: Encoding

    def contributor(self, engine: RayEngine | None = None) -> Contributor:
        """Who draws the same batches each time."""
        return Contributor("a", self.records, self.model, self.encoding, SeededRandomness("party", 1), engine)

    def engine(self, cluster: Cluster, **more: Any) -> RayEngine:
        return RayEngine(cluster, self.records, self.named, **more)

    def queries(self) -> list[Query]:
        """One after another: at one point, at two, and the others that an engine answers."""
        rng = np.random.default_rng(5)
        points = [rng.normal(size=self.model.dimension) for _ in range(3)]
        if isinstance(self.mechanism.clip, MomentumClip):
            return [Query(0, (points[0],)), Query(1, (points[1], points[0])), Query(2, (points[2], points[1]))]
        return [
            Query(0, (points[0],)),
            Query(1, (points[0], points[1]), "losses"),
            Query(2, (points[0],), "norms", 4.0),
        ]


def setting(kind: str, rows: int = 403, batch: int = 96, poisson: bool = True, momentum: bool = True) -> Setting:
    """Made-up records of one of `KINDS`."""
    body, target = KINDS[kind]
    rng = np.random.default_rng(7)
    schema_body = {"features": FEATURES, "target": target, "intercept": False, "bits": 8}
    schema = schema_from_json(schema_body)
    whole = np.rint(rng.uniform(-1, 1, (rows, COLUMNS)) * 256).astype(np.int16)
    targets = rng.integers(0, len(target.get("classes", "01")), rows).astype(np.float64)
    if kind == "sparse":
        columns = np.argsort(rng.random((rows, COLUMNS)), axis=1)[:, :6].astype(np.int64)
        records = Records(SparseRows.of(columns, whole[:, :6], 8, COLUMNS), targets)
    elif kind == "units":
        members = np.full((rows // 2, 3), -1, np.int64)
        members[:, 0], members[::2, 1] = np.arange(0, 2 * len(members), 2), np.arange(1, 2 * len(members), 4)
        records = Records(DenseRows.of(whole, 8), targets, "patient", members)
    else:
        records = Records(DenseRows.of(whole, 8), targets)
    model = build_model(body, schema)
    units = records.units
    sampler: Sampler = Poisson.with_overflow(units, batch, 3, 1e-8) if poisson else FixedSize(units, batch)
    clip = MomentumClip(0.5, 0.1, 0.4) if momentum else GradientClip(0.5)
    mechanism = Mechanism((Cohort("a", sampler),), clip, 1.0, 4, Unit(records.unit_column))
    encoding = Encoding.of(mechanism, 41, model.largest_limit)
    return Setting(records, model, Named(body, schema_body, model.dimension), mechanism, encoding)


def answers(given: Setting, engine: RayEngine | None = None) -> list[list[int]]:
    """To every question, by one party."""
    contributor = given.contributor(engine)
    return [np.atleast_1d(contributor.contribution(query)).tolist() for query in given.queries()]


def require_equal(given: Setting, found: list[list[int]]) -> None:
    """To what one process answers, to the bit.

    A perceptron's products in float32 differ in a last bit with a record's place, which is drawn. A delta's rounding
    may flip then, in one answer of three or so, which moves a sum by less than a thousandth of the limit: ten at once
    do not happen.
    """
    wanted = answers(given)
    if not isinstance(given.model, Perceptron):
        assert found == wanted
        return
    limit = given.encoding.scale("a", 1).limit
    assert all(np.linalg.norm(np.subtract(*pair)) <= limit / 100 for pair in zip(found, wanted, strict=True))
