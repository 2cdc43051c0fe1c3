"""A party's answer: units are summed, then cut, and nothing beyond the mechanism is answered."""

from pathlib import Path

import numpy as np
import pytest

from parley.learning.contributor import Contributor, Encoding, Query
from parley.learning.errors import QueryError
from parley.learning.models import Linear, Logistic
from parley.learning.records import Records
from parley.privacy.clipping import GradientClip
from parley.privacy.mechanism import Cohort, Mechanism, Unit
from parley.privacy.randomness import SystemRandomness
from parley.privacy.sampling import FixedSize
from tests.support.tables_of_records import table


def grouped(tmp_path: Path, rows: int = 5) -> Records:
    lines = [f"{20 * row},{'fm'[row % 2]},{'yes' if row % 3 else 'no'},p{row // 2}" for row in range(rows)]
    text = "\n".join(["age,sex,ill,patient", *lines]) + "\n"
    return table(tmp_path, text, unit="patient", records_per_unit=2)


def test_a_units_records_are_summed_before_the_clip(tmp_path: Path) -> None:
    records = grouped(tmp_path)
    assert records.units == 3
    assert records.members.tolist() == [[0, 1], [2, 3], [4, -1]]
    model = Linear(3, Logistic())
    mechanism = Mechanism((Cohort("a", FixedSize(3, 3)),), GradientClip(0.4), 1.0, 1, Unit("patient"))
    encoding = Encoding.of(mechanism, 41, model.largest_limit)
    party = Contributor("a", records, model, encoding, SystemRandomness())
    theta = np.array([0.3, -0.2, 0.1])
    found = encoding.lattice(0).decode(party.contribution(Query(0, (theta,))))
    gradients = model.gradients(records.rows.take(np.arange(5)), records.targets, theta)
    sums = np.stack([gradients[:2].sum(axis=0), gradients[2:4].sum(axis=0), gradients[4]])
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(found, (sums * np.minimum(1, 0.4 / norms)).sum(axis=0), atol=1e-5)


def test_a_party_refuses_what_the_mechanism_does_not_admit(tmp_path: Path) -> None:
    records = grouped(tmp_path)
    model = Linear(3, Logistic())
    mechanism = Mechanism((Cohort("a", FixedSize(3, 1)),), GradientClip(0.4), 1.0, 2, Unit("patient"))
    encoding = Encoding.of(mechanism, 41, model.largest_limit)
    party = Contributor("a", records, model, encoding, SystemRandomness())
    zero = np.zeros(3)
    for query in (
        Query(0, (zero, zero)), Query(0, (np.zeros(4),)), Query(0, (np.full(3, np.nan),)),
        Query(0, (zero,), "model"), Query(0, (zero,), "losses"), Query(0, (zero,), "gradient", np.inf),
    ):  # fmt: skip
        with pytest.raises(QueryError):
            party.contribution(query)
    by_row = Mechanism((Cohort("a", FixedSize(3, 1)),), GradientClip(0.4), 1.0, 2)
    with pytest.raises(QueryError, match="grouped by patient"):
        Contributor("a", records, model, Encoding.of(by_row, 41, model.largest_limit), SystemRandomness())
    wrong_size = Mechanism((Cohort("a", FixedSize(4, 1)),), GradientClip(0.4), 1.0, 2, Unit("patient"))
    with pytest.raises(QueryError, match="3 units"):
        Contributor("a", records, model, Encoding.of(wrong_size, 41, model.largest_limit), SystemRandomness())
