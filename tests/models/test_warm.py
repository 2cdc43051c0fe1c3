"""A model file as a start: of the same columns and the same model, whatever else its run was like."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.learning.errors import ModelFileError
from parley.learning.model_archive import read_archive, with_digests, write_archive
from parley.learning.schema import schema_from_json
from parley.models.warm import read_start
from tests.support import documents
from tests.support.warm import THETA, model_file

SCHEMA = documents.BODY["schema"]
MODEL = {"kind": "logistic"}


def recarded(path: Path, **changes: Any) -> Path:
    theta, description, card = read_archive(path)
    card = {name: value for name, value in card.items() if not name.endswith("digest")} | changes
    write_archive(path, theta, description, with_digests(card, theta, description))
    return path


def test_its_parameters_are_the_start_and_its_card_says_what_it_is(tmp_path: Path) -> None:
    path = model_file(tmp_path / "start.npz")
    found = read_start(path, MODEL, schema_from_json(SCHEMA))
    assert np.array_equal(found.theta, THETA)
    assert (found.start.digest, found.start.private) == (read_archive(path)[2]["digest"], True)
    assert read_start(path, {**MODEL, "dimension": 3}, schema_from_json(SCHEMA)).start == found.start


@pytest.mark.parametrize(
    ("records", "private"),
    [
        ("public", False),
        ("made up", False),
        ("private", True),
        ("", True),
        (None, True),
        ("Public", True),
        (False, True),
    ],
)
def test_only_a_card_that_says_so_is_of_public_records(tmp_path: Path, records: Any, private: bool) -> None:
    path = recarded(model_file(tmp_path / "start.npz"), records=records)
    assert read_start(path, MODEL, schema_from_json(SCHEMA)).start.private is private


SAME: list[dict[str, Any]] = [{"bits": 8}, {"unit": "patient"}, {"unit": "patient", "records_per_unit": 4}]


@pytest.mark.parametrize("changes", SAME)
def test_how_records_are_counted_and_how_finely_they_are_read_does_not_matter(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    path = model_file(tmp_path / "start.npz")
    assert read_start(path, MODEL, schema_from_json({**SCHEMA, **changes})).theta is not None


FEATURES = SCHEMA["features"]
OTHER: list[dict[str, Any]] = [
    {"features": FEATURES[::-1]},
    {"features": [{**FEATURES[0], "high": 95.0}, FEATURES[1]]},
    {"features": [{**FEATURES[0], "name": "years"}, FEATURES[1]]},
    {"features": [{**FEATURES[0], "missing": "zero"}, FEATURES[1]]},
    {"features": [*FEATURES, {"name": "weight", "low": 30.0, "high": 200.0}], "intercept": False},
    {"target": {"name": "sick", "kind": "binary", "positive": ["0"], "negative": ["1"]}},
]


@pytest.mark.parametrize("changes", OTHER)
def test_other_columns_are_refused_also_where_there_are_as_many_parameters(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    path = model_file(tmp_path / "start.npz")
    with pytest.raises(ModelFileError, match="another model or other columns"):
        read_start(path, MODEL, schema_from_json({**SCHEMA, **changes}))


def test_another_model_is_refused(tmp_path: Path) -> None:
    path = model_file(tmp_path / "start.npz")
    with pytest.raises(ModelFileError, match="another model or other columns"):
        read_start(path, {"kind": "smoothed-hinge"}, schema_from_json(SCHEMA))


def test_a_description_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    path = model_file(tmp_path / "start.npz")
    theta, description, card = read_archive(path)
    del description["model"]
    plain = {name: value for name, value in card.items() if not name.endswith("digest")}
    write_archive(path, theta, description, with_digests(plain, theta, description))
    with pytest.raises(ModelFileError, match="does not say what model it is"):
        read_start(path, MODEL, schema_from_json(SCHEMA))


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": True}, {"epsilon": -1.0}, {"epsilon": 0}, {"epsilon": "1"}, {"epsilon": 1e300}, {"delta": [1]},
        {"statement": "x" * 1_900_000}, {"statement": ["x"]}, {"run": {"a": "<script>"}}, {"run": "a\nb"},
    ],
)  # fmt: skip
def test_what_a_card_says_is_checked_before_it_stands_in_another(tmp_path: Path, changes: dict[str, Any]) -> None:
    """2 MB of a sentence would make the model of the run that starts here one that nobody can read."""
    path = recarded(model_file(tmp_path / "start.npz"), **changes)
    with pytest.raises(ModelFileError, match="a card that parley did not write"):
        read_start(path, MODEL, schema_from_json(SCHEMA))


@pytest.mark.parametrize("schema", [None, [1], "x"])
def test_a_file_without_a_schema_is_refused_in_words(tmp_path: Path, schema: Any) -> None:
    path = model_file(tmp_path / "start.npz")
    theta, description, card = read_archive(path)
    card = {name: value for name, value in card.items() if not name.endswith("digest")}
    description = {name: value for name, value in description.items() if name != "schema"}
    description |= {} if schema is None else {"schema": schema}
    write_archive(path, theta, description, with_digests(card, theta, description))
    with pytest.raises(ModelFileError, match="does not say what model it is"):
        read_start(path, MODEL, schema_from_json(SCHEMA))
