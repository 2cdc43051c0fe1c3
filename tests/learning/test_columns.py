"""What a cell is encoded to is bounded by public fields alone, exactly, for every kind of column."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from parley.learning.cells import on_scale
from parley.learning.columns import Category, Date, Number
from parley.learning.errors import SchemaError
from parley.learning.readers import Table
from parley.learning.records import encode
from parley.learning.rows import DenseRows, integer_type
from parley.learning.schema import Schema, schema_from_json

TARGET = {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]}
DAYS = st.dates().map(lambda day: day.isoformat())
RULES = st.sampled_from(["centre", "zero", "indicator"])


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    """At their edges: bounds that differ in their last digit only, and centres on the bounds."""
    transform = draw(st.sampled_from(["none", "log1p"]))
    low = draw(st.floats(-0.999999 if transform == "log1p" else -1e6, 1e6))
    high = draw(st.one_of(st.floats(low, 1e7), st.just(float(np.nextafter(low, np.inf)))))
    return {"low": low, "high": high, "transform": transform, "missing": draw(RULES)}


@st.composite
def columns(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["number", "date", "category"]))
    if kind == "category":
        labels = draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))
        return {"kind": kind, "categories": labels, "missing": draw(st.sampled_from(["zero", "indicator"])),
                "other": "zero"}  # fmt: skip
    if kind == "date":
        low, high = sorted([draw(DAYS), draw(DAYS)])
        return {"kind": kind, "low": low, "high": high, "missing": draw(RULES)}
    return {"kind": kind, **draw(numbers())}


def schema_of(drawn: list[dict[str, Any]], centred: list[tuple[float, float]], **more: Any) -> Schema | None:
    """None where the bounds are no bounds, or a row could be too long: by public numbers."""
    features = []
    for index, (column, (where, spread)) in enumerate(zip(drawn, centred, strict=True)):
        body = {"name": f"c{index}", **column}
        try:
            plain = schema_from_json({"features": [body], "target": TARGET}).features
            assert isinstance(plain, tuple)
            if not isinstance(plain[0], Category):
                low, high = plain[0].ends
                body |= {"centre": min(max(low + where * (high - low), low), high), "spread": spread}
            features.append(body)
        except SchemaError:
            return None
    try:
        return schema_from_json({"features": features, "target": TARGET, **more})
    except SchemaError:
        return None


def cells_of(column: dict[str, Any]) -> list[str]:
    if column["kind"] == "category":
        return [*column["categories"], "zzz", "", "nan"]
    if column["kind"] == "date":
        return [column["low"], column["high"], "0001-01-01", "9999-12-31", "", "NaN"]
    low, high = column["low"], column["high"]
    between = [low + share * (high - low) for share in (0.1, 0.5, 0.9)]
    return [*(repr(each) for each in (low, high, *between, -1e300, 1e300)), "", "null"]


@settings(max_examples=400, deadline=None)
@given(
    drawn=st.lists(columns(), min_size=1, max_size=3),
    shares=st.lists(st.tuples(st.floats(0, 1), st.floats(1e-6, 1e6)), min_size=3, max_size=3),
    bits=st.integers(0, 16),
    intercept=st.booleans(),
)
def test_no_cell_and_no_row_is_beyond_what_the_schema_says(
    drawn: list[dict[str, Any]], shares: list[tuple[float, float]], bits: int, intercept: bool
) -> None:
    schema = schema_of(drawn, shares[: len(drawn)], bits=bits, intercept=intercept)
    if schema is None:
        return
    cells = [cells_of(column) for column in drawn]
    most = max(map(len, cells))
    # Row by row the same kinds of cells meet: longest with longest, empty with empty.
    table = {f"c{index}": (found * most)[: most * 2] for index, found in enumerate(cells)}
    records = encode(Table({"y": ["1"] * most * 2, **table}, most * 2), schema)
    assert isinstance(records.rows, DenseRows)
    held, (low, high) = records.rows.values, schema.integer_reach
    assert held.shape[1] == schema.dimension
    assert held.dtype == integer_type(schema.integer_reach)
    assert low <= int(held.min())
    assert int(held.max()) <= high
    longest = max(sum(int(each) ** 2 for each in row) for row in held.tolist())
    assert longest <= schema._longest_squared
    squared = Fraction(longest, 4**records.rows.bits)
    assert squared <= Fraction(schema.feature_bound) ** 2 * (1 + Fraction(1, 2**51))


@settings(max_examples=100, deadline=None)
@given(st.lists(columns(), min_size=1, max_size=3), st.floats(0, 1), st.floats(1e-3, 1e3))
def test_documents_read_back(drawn: list[dict[str, Any]], share: float, spread: float) -> None:
    schema = schema_of(drawn, [(share, spread)] * len(drawn))
    if schema is not None:
        body = schema.as_json()
        assert schema_from_json(body) == schema
        assert schema_from_json(body).as_json() == body


def encoded(column: dict[str, Any], *cells: Any) -> list[list[float]]:
    schema = schema_from_json({"features": [{"name": "c", **column}], "target": TARGET, "bits": 8})
    rows = encode(Table({"c": list(cells), "y": ["1"] * len(cells)}, len(cells)), schema).rows
    assert isinstance(rows, DenseRows)
    return (rows.values / 2.0**rows.bits).tolist()  # type: ignore[no-any-return]


def test_a_gap_is_a_column_of_its_own_and_no_value() -> None:
    flag = {"low": 0, "high": 10, "missing": "indicator"}
    assert encoded(flag, "0", "10", "NaN", None, float("nan"), "5") == [[-1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [0, 0]]
    blood = {"kind": "category", "categories": ["a", "b"], "missing": "indicator", "other": "zero"}
    assert encoded(blood, "a", "b", "", "z") == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    # A label of that name was a category before there was a rule of that name, and still is.
    named = {"kind": "category", "categories": ["a", "indicator"], "missing": "indicator"}
    assert encoded(named, "a", "") == [[1, 0], [0, 1]]


def test_the_bound_of_a_pair_is_the_longer_of_its_two_cases_and_not_their_sum() -> None:
    body = {"name": "c", "low": 0.0, "high": 2.0, "missing": "indicator"}
    for spread, bound in ((1.0, 1.0), (0.5, 2.0), (4.0, 1.0)):
        schema = schema_from_json({"features": [{**body, "centre": 1.0, "spread": spread}], "target": TARGET})
        assert schema.feature_bound == bound
        assert schema.width == 2


def test_a_logarithm_is_taken_after_the_cut_in_the_columns_own_unit() -> None:
    income = {"low": 0, "high": 999, "transform": "log1p"}
    assert encoded(income, "0", "999", "1e9", "-5") == [[-1], [1], [1], [-1]]
    middle = encoded(income, str(1000**0.5 - 1))[0][0]
    assert middle == pytest.approx(0, abs=1e-9)


@settings(max_examples=300, deadline=None)
@given(st.floats(-0.999, 1e12), st.floats(1e-3, 1e12))
def test_no_logarithm_is_rounded_beyond_those_of_the_bounds(low: float, more: float) -> None:
    """NumPy's and Python's differ in the last digit for one number in sixty, and half of these are above."""
    assume(math.log1p(low) < math.log1p(low + more))
    column = Number("c", low, low + more, 0.0, 1.0, transform="log1p")
    found = on_scale(np.array([low, low + more]), column)
    assert (found >= column.ends[0]).all()
    assert (found <= column.ends[1]).all()


def test_days_are_counted_from_the_first() -> None:
    seen = {"kind": "date", "low": "2000-01-01", "high": "2000-01-21"}
    assert encoded(seen, "2000-01-01", "2000-01-11", "2000-01-21 23:59", "2031-01-01") == [[-1], [0], [1], [1]]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"low": -1, "high": 5, "transform": "log1p"}, "c: low is -1, log1p needs one above -1"),
        ({"low": 1e15, "high": 1.0000000000000001e15, "transform": "log1p"}, "c: low .* is not below|one logarithm"),
        ({"low": 0, "high": 5, "transform": "sqrt"}, "c: transform is 'sqrt', use none or log1p"),
        ({"low": 0, "high": 5, "transform": ["log1p"]}, "c: transform is "),
        ({"low": 0, "high": 5, "missing": "mean"}, "c: missing is 'mean', use refuse or centre or zero or indicator"),
        ({"kind": "date", "low": "1990-13-01", "high": "2000-01-01"}, "c: low is '1990-13-01', give a day such as"),
        ({"kind": "date", "low": 1990, "high": "2000-01-01"}, "c: low is '1990', give a day such as"),
        ({"kind": "date", "low": "2000-01-01", "high": "2000-01-01"}, "c: low 2000-01-01 is not before high"),
        ({"kind": "date", "low": "2000-01-01", "high": "2000-01-02", "transform": "log1p"}, "c: no field 'transform'"),
        ({"kind": "category", "categories": ["a"], "other": "indicator"}, "other is 'indicator', use refuse, zero or"),
        ({"low": 0, "high": 5, "source": "two\nlines"}, "c: source is .* give one line"),
        ({"low": 0, "high": 5, "group": "x"}, "c: no field 'group'"),
    ],
)  # fmt: skip
def test_what_a_column_may_not_say_is_named(column: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        schema_from_json({"features": [{"name": "c", **column}], "target": TARGET})


def test_what_documents_of_earlier_versions_did_not_have_is_left_out_where_it_says_nothing() -> None:
    body = schema_from_json({"features": [{"name": "c", "low": 0, "high": 1}], "target": TARGET}).as_json()
    assert list(body["features"][0]) == ["kind", "name", "low", "high", "centre", "spread", "missing"]
    kept = ["name", "kind", "positive", "negative", "classes", "low", "high", "centre", "spread"]
    assert list(body["target"]) == kept
    assert (body["target"]["low"], body["target"]["high"]) == (0.0, 1.0)


def test_where_bounds_are_from_changes_nothing() -> None:
    assert Number("a", 0, 1, 0, 1) == Number("a", 0, 1, 0, 1, source="a book")
    assert Date("a", "2000-01-01", "2000-01-02", 0, 1) == Date("a", "2000-01-01", "2000-01-02", 0, 1, source="a book")
    assert Category("a", ("x",)) == Category("a", ("x",), source="a book")
