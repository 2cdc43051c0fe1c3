"""What an institution says of its records: whatever manifest equals it fits them once sealed, any other is refused."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.learning.columns import Date, Number
from parley.learning.errors import DataError, SchemaError
from parley.learning.holding import Layout, described, holding_from, holding_of, judge
from parley.learning.readers import Table, read
from parley.learning.records import encode
from parley.learning.rows import DenseRows, integer_type
from parley.learning.schema import Schema, schema_from_json
from parley.learning.schema_tables import features_from
from tests.support.held import BODY, CELLS, HOLDING, data


def ends(column: dict[str, Any]) -> tuple[float, float]:
    """Between which a centre may lie."""
    made = features_from([column])
    assert isinstance(made, tuple)
    assert isinstance(made[0], Number | Date)
    return made[0].ends


@st.composite
def equal_schemas(draw: st.DrawFn) -> Schema:
    """Any schema that a manifest may have, by what the judge is said to leave open, and beyond it."""
    target = draw(st.sampled_from(BODY["targets"]))
    columns = [each for each in BODY["features"] if each["name"] != target["name"]]
    chosen = draw(st.permutations(columns).map(lambda order: order[: draw(st.integers(1, len(columns)))]))
    features = []
    for column in chosen:
        changed = dict(column)
        if "low" in column and draw(st.booleans()):
            low, high = ends(column)
            changed["centre"] = draw(st.floats(low, high))
            changed["spread"] = draw(st.floats(1e-8, 1e12))
        features.append(changed)
    body = {"features": features, "target": target, "bits": draw(st.integers(0, 16)), "intercept": draw(st.booleans())}
    try:
        return schema_from_json(body)
    except SchemaError:
        # Too long to count: by public numbers, and so refused of every party alike.
        return schema_from_json(
            {"features": [BODY["features"][3 if target["name"] == "sick" else 2]], "target": target}
        )


@settings(max_examples=300, deadline=None)
@given(equal_schemas())
def test_every_manifest_that_equals_a_schema_fits_records_that_fit_it(schema: Schema) -> None:
    if judge(HOLDING, schema) is not None:
        return
    records = encode(data(), schema)
    assert records.units == HOLDING.units
    assert isinstance(records.rows, DenseRows)
    assert records.rows.values.dtype == integer_type(schema.integer_reach)
    low, high = schema.integer_reach
    assert records.rows.values.min() >= low
    assert records.rows.values.max() <= high


INCOME, SEEN, BLOOD = (dict(BODY["features"][place]) for place in (4, 5, 6))


EIGHT = {"low": -8, "high": 8, "missing": "centre"}


def changed(**changes: Any) -> Schema:
    body: dict[str, Any] = {"features": copy.deepcopy(BODY["features"][:3]), "target": dict(BODY["targets"][0])}
    for path, value in changes.items():
        *way, last = path.split("__")
        place: Any = body
        for step in way:
            place = place[int(step)] if step.isdigit() else place[step]
        place[int(last) if last.isdigit() else last] = value
    return schema_from_json(body)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"features__0__low": 21}, "schema.features[0]"),
        ({"features__0__high": 89}, "schema.features[0]"),
        ({"features__0__missing": "refuse"}, "schema.features[0]"),
        ({"features__0__name": "Age"}, "schema.features[0]"),
        ({"features__0__centre": 19}, "schema.features[0]"),
        ({"features__0__spread": 1e9}, "schema.features[0]"),
        ({"features__0__spread": 1e-5, "bits": 0}, "schema.features[0]"),
        ({"features__2__categories": ["b", "a", "c"]}, "schema.features[2]"),
        ({"features__2__categories": ["a", "b", "c", "d"]}, "schema.features[2]"),
        ({"features__2__other": "refuse"}, "schema.features[2]"),
        ({"features__2__other": "a"}, "schema.features[2]"),
        ({"features__2__missing": "refuse"}, "schema.features[2]"),
        ({"features__0": {"kind": "category", "name": "age", "categories": ["20"]}}, "schema.features[0]"),
        ({"features__0": {**INCOME, "transform": "none"}}, "schema.features[0]"),
        ({"features__0": {**INCOME, "missing": "zero"}}, "schema.features[0]"),
        ({"features__0": {**INCOME, "centre": 14.0}}, "schema.features[0]"),
        ({"features__0": {**SEEN, "name": "income"}}, "schema.features[0]"),
        ({"features__0": {**SEEN, "low": "1990-01-02"}}, "schema.features[0]"),
        ({"features__0": {**SEEN, "high": "2020-12-30"}}, "schema.features[0]"),
        ({"features__0": {**SEEN, "missing": "refuse"}}, "schema.features[0]"),
        ({"features__0": {**SEEN, "centre": -1.0}}, "schema.features[0]"),
        ({"features__0": {**BLOOD, "missing": "zero"}}, "schema.features[0]"),
        ({"features__0": {**BLOOD, "missing": "a"}}, "schema.features[0]"),
        ({"features__0": {"name": "gene_{1..4}", "low": -8, "high": 8, "missing": "centre"}}, "schema.features[3]"),
        ({"features__0": {"name": "gene_{1..3}", "low": -8, "high": 8}}, "schema.features[0]"),
        ({"target__positive": ["1", "2"]}, "schema.target"),
        ({"target__negative": ["1"], "target__positive": ["0"]}, "schema.target"),
        ({"target": {"name": "age2", "kind": "number", "low": 0, "high": 1}}, "schema.target"),
        ({"target": {"name": "cost", "kind": "number", "low": 0, "high": 100, "spread": 2.0}}, "schema.target"),
        ({"unit": "sick2"}, "schema.unit"),
        ({"unit": "name", "records_per_unit": 3}, "schema.unit"),
        ({"features": {"count": 3, "low": 0, "high": 1}}, "schema.features"),
    ],
)
def test_what_is_not_the_institutions_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    if "features__0" in changes or "features" in changes:
        body = {"features": copy.deepcopy(BODY["features"][:3]), "target": dict(BODY["targets"][0])}
        if "features" in changes:
            body["features"] = changes["features"]
        else:
            body["features"][0] = changes["features__0"]
        schema = schema_from_json(body)
    elif "target" in changes:
        schema = schema_from_json({"features": copy.deepcopy(BODY["features"][:3]), "target": changes["target"]})
    else:
        schema = changed(**changes)
    found = judge(HOLDING, schema)
    assert found is not None
    assert found[0] == field


def test_remarks_and_the_form_of_an_entry_are_nobodys_business() -> None:
    """Where bounds are from, and whether three columns stand in one entry or in three."""
    each = [{"name": f"gene_{place}", "low": -8, "high": 8, "missing": "centre"} for place in (3, 1)]
    for features in (each, [{**SEEN, "source": "a registry"}], [{"names": ["gene_2", "gene_3"], **EIGHT}]):
        assert judge(HOLDING, schema_from_json({"features": features, "target": BODY["targets"][0]})) is None


def test_uniform_columns_are_equal_but_for_their_encoding() -> None:
    body = {
        "format": "libsvm", "features": {"count": 5, "low": 0, "high": 1}, "nonzeros": 2,
        "target": {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]},
    }  # fmt: skip
    held, (_, schema) = holding_of(body, 3), described(body)
    assert judge(held, schema) is None
    base = schema.as_json()
    for path, value in (("count", 4), ("low", -1.0), ("high", 2.0), ("whole", True), ("centre", 0.5), ("spread", 1e6)):
        other = schema_from_json({**base, "features": {**base["features"], path: value}})
        assert judge(held, other) is not None, path
    assert judge(held, schema_from_json({**base, "features": {**base["features"], "spread": 0.5}})) is None
    assert judge(held, schema_from_json({**base, "nonzeros": 3})) is not None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"delimiter": ";;"}, "delimiter"),
        ({"skip": -300}, "skip"),
        ({"skip": "x"}, "skip"),
        ({"header": 1}, "header"),
        ({"header": False}, "needs columns"),
        ({"columns": ["a", "a"]}, "twice"),
        ({"encoding": "rot13"}, "encoding"),
        ({"missing": "NA"}, "missing"),
        ({"format": "npz"}, "one target"),
        ({"units": 0}, "units"),
        ({"units": 2.5}, "units"),
        ({"intercept": True}, "for a study to choose"),
        ({"bits": 3}, "for a study to choose"),
        ({"unit": "age"}, "whose record"),
        ({"records_per_unit": 2}, "no unit column"),
        ({"delimitter": ";"}, "no field 'delimitter'"),
    ],
)
def test_what_an_operator_may_not_write_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        holding_from({**copy.deepcopy(BODY), **changes})


def test_a_schema_file_reads_back(tmp_path: Path) -> None:
    assert holding_from(HOLDING.as_json()) == HOLDING
    with pytest.raises(SchemaError, match="no field 'format'"):
        schema_from_json({"format": "csv", "features": BODY["features"][:1], "target": BODY["targets"][0]})


def test_parquet_is_read_whole(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "data.parquet"
    parquet.write_table(pyarrow.table({name: pyarrow.array(values) for name, values in CELLS.items()}), path)
    found = read([path], Layout("parquet"), "sick")
    assert isinstance(found, Table)
    assert set(found.columns) == set(CELLS)


def test_one_name_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("age,age\n1,2\n")
    with pytest.raises(DataError, match="one column name twice"):
        read([path], Layout(), "sick")


def test_the_type_of_rows_does_not_follow_the_values() -> None:
    schema = schema_from_json({"features": [BODY["features"][0]], "target": BODY["targets"][0]})
    kinds = {
        encode(Table({"age": [age], "sick": ["1"]}, 1), schema).rows.values.dtype  # type: ignore[attr-defined]
        for age in ("20", "55", "90", "?")
    }
    assert kinds == {np.dtype(np.int16)}
