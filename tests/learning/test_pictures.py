"""Rows that are pictures, and what a model says of some of them."""

import io
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from parley.learning.models import Linear, Softmax
from parley.learning.pictures import (
    MOST_EXAMPLES,
    MOST_ROWS,
    Example,
    PublicPictures,
    picture_shape,
    pixels,
    png,
    taken,
)
from parley.learning.readers import Data, Dense, Sparse, Table
from parley.learning.records import encode
from parley.learning.schema import Schema, schema_from_json
from tests.support.pictures import SIDE, STUDY, bright

SHAPE = (1, SIDE, SIDE)


def schema(**changes: Any) -> Schema:
    return schema_from_json({**STUDY, **changes})


@pytest.mark.parametrize("channels", [1, 3])
def test_a_png_file_holds_the_very_pixels(channels: int) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (5, 9, channels)).astype(np.uint8)
    found = imread(io.BytesIO(png(picture)), format="png")
    assert np.array_equal(np.rint(found * 255).astype(np.uint8).reshape(picture.shape), picture)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([1, 8, 8], (1, 8, 8)),
        ([8, 8], (1, 8, 8)),
        ([4, 16], (1, 4, 16)),
        ([64], None),
        ([2, 4, 8], None),  # neither grey nor colours
        ([1, 8, 9], None),  # not as many numbers as a row has
        ("1,8,8", None),
        (None, None),
    ],
)
def test_a_row_is_a_picture_where_the_model_says_its_shape(given: Any, found: Any) -> None:
    assert picture_shape({"kind": "torch:a.b:c", "input": given}, schema()) == found


def test_a_transform_says_the_shape_and_a_number_has_no_wrong_answers() -> None:
    seen = schema(transform={"kind": "scattering", "shape": [1, 8, 8], "scales": 1, "groups": 9})
    assert picture_shape({"kind": "softmax"}, seen) == SHAPE
    assert picture_shape({"kind": "softmax"}, schema()) is None
    number = schema(target={"name": "y", "kind": "number", "low": 0, "high": 1})
    assert picture_shape({"kind": "torch:a.b:c", "input": [1, 8, 8]}, number) is None


def test_pixels_are_black_at_the_lowest_value_however_the_rows_were_written() -> None:
    values, labels = bright(5)
    expected = values.reshape(5, SIDE, SIDE, 1)
    assert np.array_equal(pixels(Dense(values, labels), schema(), SHAPE), expected)
    starts = np.arange(6, dtype=np.int64) * SIDE * SIDE
    columns = np.tile(np.arange(SIDE * SIDE), 5)
    sparse = Sparse(list(labels), starts, columns, values.astype(np.float64).ravel())
    assert np.array_equal(pixels(sparse, schema(), SHAPE), expected)
    named = schema(features=[{"name": f"p{place}", "low": 0, "high": 255} for place in range(SIDE * SIDE)])
    table = Table({f"p{place}": list(values[:, place]) for place in range(SIDE * SIDE)}, 5)
    assert np.abs(pixels(table, named, SHAPE).astype(int) - expected).max() <= 1  # of the lattice's rounding
    seen = schema(transform={"kind": "scattering", "shape": [1, 8, 8], "scales": 1, "groups": 9})
    assert np.array_equal(pixels(Dense(values, labels), seen, SHAPE), expected), "before the transform"


def test_rows_are_taken_from_whatever_was_read() -> None:
    values, labels = bright(4)
    kinds: list[Data] = [
        Dense(values, labels),
        Table({"label": list(labels), **{str(place): list(values[:, place]) for place in range(SIDE * SIDE)}}, 4),
        Sparse(list(labels), np.arange(5) * 2, np.tile([3, 9], 4), np.arange(8.0)),
    ]
    for each in kinds:
        found = taken(each, np.array([2, 0, 999]))
        if isinstance(found, Dense):
            assert np.array_equal(found.values, values[[2, 0]])
        elif isinstance(found, Table):
            assert (found.count, found.columns["label"]) == (2, [labels[2], labels[0]])
        else:
            assert (found.starts.tolist(), found.values.tolist()) == ([0, 2, 4], [4.0, 5.0, 0.0, 1.0])


def pictured(count: int) -> PublicPictures:
    data = Dense(*bright(count))
    return PublicPictures(taken(data, np.arange(MOST_ROWS)), encode(data, schema()), schema(), SHAPE)


def test_examples_are_the_surest_wrong_answers_and_the_least_sure_right_ones() -> None:
    public = pictured(1500)
    model = Linear(SIDE * SIDE, Softmax(2))
    theta = np.random.default_rng(2).standard_normal(model.dimension) / 10
    found = public.examples(model, theta)
    wrong, right = [each for each in found if not each.right], [each for each in found if each.right]
    assert len(wrong) == len(right) == MOST_EXAMPLES
    assert [each.row for each in found] == [each.row for each in wrong + right]
    scores = model.scores(public.records.rows.take(np.arange(MOST_ROWS)), theta)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    labels = np.array(["left", "right"])
    said, truth = labels[chances.argmax(axis=1)], labels[public.records.targets[:MOST_ROWS].astype(int)]
    assert max(each.row for each in found) < MOST_ROWS
    for each in found:
        assert (each.answer, each.truth) == (said[each.row], truth[each.row])
        assert each.chance == pytest.approx(chances[each.row].max())
        shown = np.rint(imread(io.BytesIO(each.png), format="png") * 255).astype(np.uint8)
        assert np.array_equal(shown.ravel(), public.data.values[each.row])  # type: ignore[union-attr]
    sure = chances.max(axis=1)
    assert wrong[0].chance == pytest.approx(sure[said != truth].max())
    assert right[0].chance == pytest.approx(sure[said == truth].min())


def test_a_model_that_has_diverged_has_examples_without_a_chance() -> None:
    found = pictured(30).examples(Linear(SIDE * SIDE, Softmax(2)), np.full(SIDE * SIDE * 2, np.inf))
    assert found
    assert all(each.chance is None for each in found)


def test_an_example_is_written_and_read() -> None:
    (first, *_) = pictured(30).examples(Linear(SIDE * SIDE, Softmax(2)), np.ones(SIDE * SIDE * 2))
    assert Example.from_json(first.as_json()) == first
    assert "png" not in repr(first)
