"""What travels to the process with a module arrives as it was; what goes wrong there is said by its class alone."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from parley.learning.encoding import Scale
from parley.learning.records import Records
from parley.learning.rows import DenseRows, SparseRows
from parley.models.frames import LONGEST_HEADER, Frame
from parley.models.module_spec import ModuleSpec
from parley.models.serve import (
    Served,
    count_to_json,
    records_from_frame,
    records_to_frame,
    spec_from_frame,
    spec_to_frame,
)
from parley.mpc.parts import NoiseParts
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Terms
from tests.support.own_modules import records, schema

SPARSE = SparseRows.of(np.array([[0, 2], [1, 0]]), np.array([[1, 2], [3, 0]]), 1, 4)
GROUPED = Records(records().rows, records().targets, "patient", np.array([[0, 1], [2, -1]]), {}, 3.5)


@pytest.mark.parametrize("held", [records(), GROUPED, Records(SPARSE, np.array([0.0, 1.0]))])
def test_records_arrive_as_they_are(held: Records) -> None:
    header, arrays = records_to_frame(held)
    found = records_from_frame(header, tuple(arrays))
    assert (found.units, found.unit_column, found.row_bound) == (held.units, held.unit_column, held.row_bound)
    assert np.array_equal(found.targets, held.targets)
    everyone = np.arange(len(held.rows))
    ours, theirs = held.rows.take(everyone), found.rows.take(everyone)
    assert type(found.rows) is type(held.rows)
    assert np.array_equal(ours.dense(), theirs.dense())
    assert np.array_equal(ours.norms.squared, theirs.norms.squared)
    assert np.array_equal(found.unit_members(np.arange(found.units)), held.unit_members(np.arange(held.units)))
    if isinstance(held.rows, DenseRows) and isinstance(found.rows, DenseRows):
        assert found.rows.values.dtype == held.rows.values.dtype


def test_a_spec_and_how_terms_are_counted_arrive_as_they_are() -> None:
    spec = ModuleSpec.of({"kind": "torch:a.b:c", "options": {"x": [1, {"y": "z"}]}, "probe": [0.5]}, schema())
    bounds = tuple((-0.1 - place / 7e4, 1 / (3 + place)) for place in range(40_000))
    for each in (spec, replace(spec, reach=bounds, whole=True)):
        header, reach = spec_to_frame(each)
        assert len(json.dumps(header)) < LONGEST_HEADER / 100, "however many columns there are"
        assert spec_from_frame(header, reach) == each
    lattice = Lattice(0.3, 11, 41, NoiseParts("semi-honest", 0.5))
    told = count_to_json(Terms(0.5, 0.1, 0.25, 1.0), lattice, Scale(lattice.step, 77))
    assert Terms(**told["terms"]) == Terms(0.5, 0.1, 0.25, 1.0)
    assert told["lattice"] == asdict(lattice)


def test_what_goes_wrong_is_said_by_its_class() -> None:
    served = Served()
    for ask in ("gradients", "losses", "initial", "rows", "records", "no such thing", None):
        answer = served.answer(Frame({"ask": ask}))
        assert set(answer.header) == {"lost"}
        assert answer.header["lost"].isidentifier()
        assert not answer.arrays
