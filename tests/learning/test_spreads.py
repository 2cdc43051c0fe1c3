"""Bounds that do not suit are said loudly, with what to write instead, which is never from the records."""

from typing import Any

import numpy as np
import pytest

from parley.learning.columns import Target
from parley.learning.fit import fit
from parley.learning.holding import holding_from
from parley.learning.readers import Dense, Sparse, Table
from parley.learning.records import encode
from parley.learning.schema import schema_from_json
from parley.learning.spreads import Spread, spread_of, warnings_of

TARGET = {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]}


def warned(column: dict[str, Any], cells: list[Any], target: dict[str, Any] = TARGET) -> list[str]:
    holding = holding_from({"units": len(cells), "features": [column], "target": target})
    table = Table({column["name"]: cells, target["name"]: ["1"] * len(cells)}, len(cells))
    found = fit(table, holding)
    assert found.fits, found.problems
    spreads: dict[str, Spread] = {}
    encode(table, next(holding.whole()), holding.layout, spreads)
    assert spreads == {name: each for name, each in found.spreads.items() if name in spreads}
    return warnings_of(found.spreads)


def test_an_age_in_years_under_a_bound_of_one_is_said_with_the_public_default() -> None:
    (said,) = warned({"name": "age", "low": 0, "high": 1}, list(range(20, 90)))
    assert said.startswith(
        "age: low = 0, high = 1 cut 70 of 70 values (100%): write low = 0, high = 120 (parley's public"
    )


def test_what_is_recommended_is_no_fact_about_the_records() -> None:
    """Other records, other counts, and the same advice."""
    advice = set()
    for shift in (0.0, 13.7, 1e5):
        cells = [shift + place for place in range(200)]
        for low, high in ((-3.0, -2.0), (0.0, 1e9)):
            (said,) = warned({"name": "dose", "low": low, "high": high}, cells)
            advice.add(said.split("): " if "cut" in said else "noise: ")[1])
    assert advice == {
        "take wider bounds from a codebook or the literature, never from the records",
        "take narrower bounds from a codebook or the literature, never from the records, "
        'or try transform = "log1p" if most values are small',
    }


@pytest.mark.parametrize(("outside", "words"), [(5, 0), (6, 1)])
def test_one_value_in_twenty_may_be_cut(outside: int, words: int) -> None:
    cells = [*range(100 - outside), *[1000] * outside]
    assert len(warned({"name": "dose", "low": 0, "high": 100}, cells)) == words


@pytest.mark.parametrize(("widest", "words"), [(50, 0), (49, 1)])
def test_a_twentieth_of_the_way_from_low_to_high_must_be_filled(widest: float, words: int) -> None:
    assert len(warned({"name": "dose", "low": 0, "high": 1000}, [0, widest])) == words


def test_a_logarithm_fills_what_a_plain_number_does_not() -> None:
    cells = [0, 1, 5, 20, 3000]
    wide = {"name": "dose", "low": 0, "high": 1e6}
    assert "log1p" in warned(wide, cells)[0]
    assert warned({**wide, "transform": "log1p"}, cells) == []


def test_gaps_dates_and_targets() -> None:
    assert warned({"name": "d", "low": 0, "high": 1, "missing": "zero"}, [None, "", "NaN"]) == [
        "d: every cell is empty: leave the column out, or correct the file"
    ]
    seen = {"name": "seen", "kind": "date", "low": "1900-01-01", "high": "2000-01-01"}
    assert "low = 1900-01-01, high = 2000-01-01 cut 2 of 2" in warned(seen, ["2010-01-01", "2011-01-01"])[0]
    narrow = {"name": "y", "kind": "number", "low": 0, "high": 1000}
    assert warned({"name": "d", "low": 0, "high": 1}, [0, 1], narrow)[0].startswith("y: its values fill 0.0%")
    assert spread_of(Target("y", "number", low=0, high=10), np.array([0.0, 20.0]), 1).filled == 1.0


def test_columns_under_one_bound_are_one() -> None:
    schema = schema_from_json({"features": {"count": 2, "low": 0, "high": 1}, "target": TARGET})
    dense = Dense(np.array([[0.0, 255.0], [128.0, 3.0]]), np.array(["1", "0"]))
    sparse = Sparse(["1", "0"], np.array([0, 1, 2]), np.array([0, 1]), np.array([255.0, 3.0]))
    for data, share in ((dense, "3 of 4"), (sparse, "2 of 3")):
        spreads: dict[str, Spread] = {}
        encode(data, schema, spreads=spreads)
        assert f"features: low = 0, high = 1 cut {share}" in warnings_of(spreads)[0]
