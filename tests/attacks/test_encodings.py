"""Logarithms, days, gaps and ranges of columns open no new door: what a party says of a run follows from two documents.

One institution of ordinary records and one whose first record is as odd as fits; both sealed, then asked by manifests
that are theirs and by manifests that were changed in one field.
"""

from typing import Any

import numpy as np
import pytest

from parley.attacks import documents
from parley.attacks.documents import UNITS, schema_text
from parley.attacks.institution import JOINS, Institution
from parley.federation.manifest import Manifest
from parley.learning.schema import schema_from_json

FEATURES: tuple[dict[str, Any], ...] = (
    {"name": "income", "low": 0.0, "high": 1e6, "transform": "log1p", "missing": "indicator"},
    {"kind": "date", "name": "seen", "low": "1990-01-01", "high": "2020-12-31", "missing": "indicator"},
    {"kind": "category", "name": "pain", "categories": ["a", "b"], "missing": "indicator", "other": "zero"},
    {"name": "gene_{1..3}", "low": -8.0, "high": 8.0, "missing": "centre"},
)
HEADER = "income,seen,pain,gene_1,gene_2,gene_3,sick"
ORDINARY = [f"{1000 + n},2001-02-{1 + n % 28:02d},{'ab'[n % 2]},{n % 5},1,-1,{n % 2}" for n in range(UNITS)]
ODD = ("NaN,null,,nan,N/A,?,1", "1e300,9999-12-31,zzz,1e300,-1e300,8,1", "-1e300,0001-01-01,a,-8,8,0,0")
WIDTH = 2 + 2 + 3 + 3


def asked(**changes: Any) -> Manifest:
    body = schema_from_json({**documents.BODY["schema"], "features": list(FEATURES)}).as_json()
    body = {name: value for name, value in body.items() if value is not None}
    return documents.manifest(**{"schema": body, "model.dimension": WIDTH + 1, **changes})


@pytest.fixture(scope="module")
def institutions(tmp_path_factory: pytest.TempPathFactory) -> list[Institution]:
    """Sealed: ordinary ones, and one for each odd record."""
    folder, found = tmp_path_factory.mktemp("encodings"), []
    for place, first in enumerate((ORDINARY[0], *ODD)):
        made = Institution(folder / f"n{place}", [first, *ORDINARY[1:]], HEADER, schema_text(features=FEATURES))
        assert made.seal().problems == []
        found.append(made)
    return found


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "centre and spread": {"schema.features.0.centre": 13.0, "schema.features.0.spread": 0.01},
    "a spread of a day": {"schema.features.1.spread": 1.0},
    "no logarithm": {"schema.features.0.transform": "none"},
    "another rule for gaps": {"schema.features.0.missing": "refuse"},
    "gaps of a date refused": {"schema.features.1.missing": "refuse"},
    "a later first day": {"schema.features.1.low": "2000-01-01"},
    "a gap as a category": {"schema.features.2.missing": "a"},
    "unlisted refused": {"schema.features.2.other": "refuse"},
    "more columns": {"schema.features.3.name": "gene_{1..4}"},
    "fewer columns": {"schema.features.3.name": "gene_{1..2}", "model.dimension": WIDTH},
    "a number as a date": {
        "schema.features.1": {"name": "seen", "low": 0.0, "high": 1.0, "centre": 0.5, "spread": 1.0}
    },
    "a pattern of millions": {"schema.features.3.name": "gene_{1..9999999}"},
    "a column twice": {"schema.features.3.names": ["gene_1", "gene_1"]},
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_party_says_does_not_depend_on_its_records(institutions: list[Institution], what: str) -> None:
    made = asked(run=f"run-{list(CHANGES).index(what)}", **CHANGES[what])
    heard = {each.heard(made) for each in institutions}
    assert len(heard) == 1, heard
    theirs = what in ("nothing", "centre and spread", "a spread of a day", "fewer columns")
    assert (heard == {JOINS}) == theirs


def test_two_neighbours_answers_differ_by_no_more_than_the_sensitivity(institutions: list[Institution]) -> None:
    everybody = {"kind": "wor", "units": UNITS, "batch": UNITS}
    # Few fraction bits: in the manifest's coarse steps a longer row of integers would count as zero.
    made = asked(**{"run": "everybody", "parties.0.sampler": everybody, "schema.bits": 2})
    point = np.linspace(-3, 3, WIDTH + 1)
    answers = [each.contribution(made, point).astype(np.int64) for each in institutions]
    step = made.lattice(0).step
    for other in answers[1:]:
        moved = float(np.linalg.norm((answers[0] - other) * step))
        assert 0 < moved <= made.mechanism.sensitivity(0) * (1 + 1e-9)
