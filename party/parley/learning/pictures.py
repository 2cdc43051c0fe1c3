"""Rows that are pictures, and what a model says of some of them: examples of right and wrong answers on a PUBLIC set.

Never of private records: an example shows a row as it is. A row is a picture where the model, or a transform of the
schema, says its shape: [channels, height, width] with one channel (grey) or three (colours), or [height, width].
"""

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.columns import Uniform
from parley.learning.holding import CSV, Layout
from parley.learning.metrics import softmax
from parley.learning.models import Model, sigmoid
from parley.learning.readers import Data, Dense, Sparse, Table
from parley.learning.records import Records, encode_features
from parley.learning.schema import Schema

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Shape = tuple[int, int, int]
MOST_ROWS = 1000
"""Of a public set, from its beginning: examples are looked for among them."""
MOST_EXAMPLES = 12
"""Right ones, and as many wrong ones."""
LARGEST_SIDE = 512
COLOURS = 3


@dataclass(frozen=True)
class Example:
    """One public picture, and what a model says of it."""

    row: int
    """In the public set, from 0."""
    truth: str
    answer: str
    chance: float | None
    """That the model gives its answer; None where it is no number."""
    png: bytes = field(repr=False)

    @property
    def right(self) -> bool:
        return self.answer == self.truth

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "png": base64.b64encode(self.png).decode()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Example":
        return cls(**{**body, "png": base64.b64decode(body["png"])})


@dataclass(frozen=True)
class PublicPictures:
    """The first rows of a public set, as they were read and as a model sees them."""

    data: Data
    records: Records
    """All of the set."""
    schema: Schema
    shape: Shape
    layout: Layout = CSV

    def examples(self, model: Model, theta: Floats) -> tuple[Example, ...]:
        """The wrong answers that the model was surest of, then the right ones that it was least sure of."""
        rows, target = np.arange(min(MOST_ROWS, len(self.records.rows))), self.schema.target
        with np.errstate(all="ignore"):
            scores = model.scores(self.records.rows.take(rows), theta)
            if target.kind == "binary":
                chances = np.stack([sigmoid(-scores[:, 0]), sigmoid(scores[:, 0])], axis=1)
            else:
                chances = softmax(scores)
        labels = (target.negative[0], target.positive[0]) if target.kind == "binary" else target.classes
        answers, truths = np.nan_to_num(chances).argmax(axis=1), self.records.targets[rows].astype(np.int64)
        given = chances[rows, answers]
        order = np.argsort(np.nan_to_num(given), kind="stable")
        wrong = [row for row in order[::-1] if answers[row] != truths[row]][:MOST_EXAMPLES]
        right = [row for row in order if answers[row] == truths[row]][:MOST_EXAMPLES]
        chosen = np.array([*wrong, *right], np.int64)
        shown = pixels(taken(self.data, chosen), self.schema, self.shape, self.layout)
        return tuple(
            Example(int(row), labels[truths[row]], labels[answers[row]], _chance(given[row]), png(each))
            for row, each in zip(chosen, shown, strict=True)
        )


def picture_shape(model: Mapping[str, Any], schema: Schema) -> Shape | None:
    """Channels, height, width: of what a transform takes, else of a module's input; None where nothing says it, or
    where what is predicted is no label. `model` is the table [model].
    """
    if schema.target.kind == "number":
        return None
    transforms = getattr(schema, "transform", ())
    columns = schema.features.count if isinstance(schema.features, Uniform) else len(schema.features)
    told = [getattr(each, "shape", ()) for each in transforms] if transforms else [model.get("input", ())]
    for shape in told:
        found = tuple(shape) if isinstance(shape, list | tuple) else ()
        found = (1, *found) if len(found) == 2 else found
        if len(found) == 3 and found[0] in (1, COLOURS) and prod(found) == columns and max(found) <= LARGEST_SIDE:
            return found
    return None


def pixels(data: Data, schema: Schema, shape: Shape, layout: Layout = CSV) -> Bytes:
    """uint8[rows, height, width, channels] between the schema's public bounds: black is the lowest value."""
    before = schema.before if getattr(schema, "transform", ()) else schema
    rows = encode_features(data, before, {}, layout)
    values = rows.take(np.arange(len(rows))).dense()[:, : prod(shape)] * 2.0**-rows.bits
    each = [before.features] if isinstance(before.features, Uniform) else before.features
    low, high = (np.array([one.reach[end] for one in each]) for end in (0, 1))
    grey = np.rint(255 * (values - low) / np.maximum(high - low, 1e-300)).clip(0, 255).astype(np.uint8)
    return np.ascontiguousarray(grey.reshape(-1, *shape).transpose(0, 2, 3, 1))


def png(picture: Bytes) -> bytes:
    """A PNG file of uint8[height, width, channels], one channel or three."""
    height, width, channels = picture.shape
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == COLOURS else 0, 0, 0, 0)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, width * channels)], axis=1)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    )


def taken(data: Data, rows: NDArray[np.int64]) -> Data:
    """Some rows of what was read, as far as there are so many."""
    rows = rows[rows < (data.count if isinstance(data, Table) else len(data.labels))]
    if isinstance(data, Dense):
        return Dense(data.values[rows], data.labels[rows])
    if isinstance(data, Table):
        return Table({name: [column[row] for row in rows] for name, column in data.columns.items()}, len(rows))
    parts = [slice(data.starts[row], data.starts[row + 1]) for row in rows]
    lengths = [part.stop - part.start for part in parts]
    return Sparse(
        [data.labels[row] for row in rows],
        np.cumsum([0, *lengths]).astype(np.int64),
        _together([data.columns[part] for part in parts], np.int64),
        _together([data.values[part] for part in parts], np.float64),
    )


def _together(parts: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, kind), *parts]).astype(kind)


def _chance(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
