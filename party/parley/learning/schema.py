"""What a run uses of its records: a `Schema` is the part of a manifest that says which columns, and what they mean.

What a file looks like is not in it: that is each institution's own (`parley.learning.holding`), and so is the word on
every column that a manifest may name. Columns are in `parley.learning.columns`, their tables in
`parley.learning.schema_tables`.
"""

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from parley.learning.checks import check_flag, check_text, check_whole
from parley.learning.columns import LATER, Category, Column, Features, Target, Uniform, integer_of
from parley.learning.errors import Collected, SchemaError
from parley.learning.schema_tables import (
    build,
    features_as_json,
    features_from,
    name_of,
    plain,
    refuse_draft,
    target_from,
)
from parley.learning.transforms import Transform, check_transforms, transforms_as_json, transforms_from

LARGEST_SQUARED = 2.0**52
"""Of an encoded row's squared integer norm, so that it is exact in float64 whatever the order of summation."""
MOST_NAMED = 5
"""Columns in one message."""
BITS_BEFORE = 14
"""Fraction bits of what a transform sees, or fewer where bounds are wide: pixels from 0 to 1 fit 16 bits in all."""


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Which columns a run uses and what they mean; docs/schema.md has every key.

    >>> study.read("study.toml").schema.target.name
    'num'
    """

    features: Features
    target: Target
    unit: str | None = None
    """Column that names whose record it is, where the unit of privacy is not the row."""
    records_per_unit: int = 1
    """Public cap; what a unit has beyond it is left out, and counted locally."""
    nonzeros: int | None = None
    """Public cap per row of a sparse file; what a row has beyond it is left out, and counted locally."""
    intercept: bool = False
    bits: int = 10
    """Fraction bits of encoded features; with a transform, of what comes out of it."""
    transform: tuple[Transform, ...] = field(default=(), metadata=LATER)
    """What a model sees in place of the columns, side by side; nothing where it sees the columns themselves."""

    def __post_init__(self) -> None:
        self._check_types()
        found = Collected()
        found.look("bits", lambda: check_whole("the schema", "bits", self.bits, 0, 16))
        most = found.look(
            "records_per_unit", lambda: check_whole("the schema", "records_per_unit", self.records_per_unit, 1, 4096)
        )
        found.look("intercept", lambda: check_flag("the schema", "intercept", self.intercept))
        if self.unit is None and most is not None and most != 1:
            found.add("", "records_per_unit is above 1 and no unit column is named: name it, or leave it out")
        if self.unit is not None:
            found.look("unit", lambda: check_text("the schema", "unit", self.unit))
        if isinstance(self.features, Uniform):
            self._check_uniform(self.features, found)
        else:
            self._check_names(self.features, found)
        found.finish()
        self._check_transform()
        if not self._longest_squared < LARGEST_SQUARED:
            raise SchemaError("a feature row could be too long to count exactly: lower bits, or raise spreads")

    def _check_transform(self) -> None:
        if not isinstance(self.transform, tuple) or self.transform:
            check_transforms(self.transform, self.columns)
            if not self._columns_squared(0) < LARGEST_SQUARED:
                raise SchemaError("a row of columns could be too long to count exactly: raise spreads")

    def _check_uniform(self, features: Uniform, found: Collected) -> None:
        if self.unit is not None:
            found.add("unit", "features under one bound have no unit column: name them, in a csv or parquet file")
        if self.nonzeros is not None:
            found.look("nonzeros", lambda: check_whole("the schema", "nonzeros", self.nonzeros, 1, features.count))

    def _check_names(self, features: tuple[Column, ...], found: Collected) -> None:
        if self.nonzeros is not None:
            found.add("nonzeros", "nonzeros is for features under one bound: leave it out")
        count = Counter(feature.name for feature in features)
        twice = ", ".join([name for name, times in count.items() if times > 1][:MOST_NAMED])
        if not count or twice:
            found.add("features", f"features: name each column once{f', not twice: {twice}' if twice else ''}")
        if self.target.name in count:
            found.add(self.target.name, f"{self.target.name} is the target: leave it out of features")
        if self.unit is not None and (self.unit in count or self.unit == self.target.name):
            found.add("unit", f"{self.unit} names whose record it is: it is neither a feature nor a target")

    def _check_types(self) -> None:
        tabular = isinstance(self.features, tuple) and all(isinstance(each, Column) for each in self.features)
        if not tabular and not isinstance(self.features, Uniform):
            raise SchemaError("features: give a list of columns, or one table with count, low and high")
        if not isinstance(self.target, Target):
            raise SchemaError("target: give a table with name and kind")

    @property
    def columns(self) -> int:
        """Encoded columns, without the intercept: what a transform sees."""
        return self.features.count if isinstance(self.features, Uniform) else sum(f.width for f in self.features)

    @property
    def width(self) -> int:
        """What a model sees, without the intercept."""
        return sum(each.features for each in self.transform) if self.transform else self.columns

    @cached_property
    def before(self) -> "Schema":
        """Of the columns alone, as transforms see them."""
        bits = next(bits for bits in range(BITS_BEFORE, -1, -1) if self._columns_squared(bits) < LARGEST_SQUARED)
        return replace(self, transform=(), intercept=False, bits=bits)

    @property
    def dimension(self) -> int:
        """The same, with it."""
        return self.width + self.intercept

    @property
    def fraction_bits(self) -> int:
        """Of the encoded features: none where all of them are integers."""
        if self.transform:
            return self.bits
        if isinstance(self.features, Uniform):
            return 0 if self.features.whole else self.bits
        return 0 if all(isinstance(feature, Category) for feature in self.features) else self.bits

    @property
    def feature_bound(self) -> float:
        """A public bound on the norm of an encoded row, intercept included, as it is after rounding to integers."""
        # Integers until here, so that only the root is rounded.
        return math.sqrt(self._longest_squared) * 2.0**-self.fraction_bits

    @property
    def integer_reach(self) -> tuple[int, int]:
        """The smallest and the largest integer that a cell of an encoded row can be, whatever the records hold.

        Encoding is monotone, rounding too: no cell lies beyond what the public bounds are encoded to.
        """
        scale = 2.0**self.fraction_bits
        if self.transform:
            high = max(each.largest for each in self.transform)
            return math.floor(-high * scale), math.ceil(high * scale)
        each = [self.features.reach] if isinstance(self.features, Uniform) else [f.reach for f in self.features]
        low, high = min(low for low, _ in each), max(high for _, high in each)
        return math.floor(low * scale), math.ceil(max(high, float(self.intercept)) * scale)

    @property
    def _longest_squared(self) -> int:
        """A public bound on the squared norm of an encoded row of integers: so no record can be refused for its own."""
        bits = self.fraction_bits  # once: it looks at every column, and a manifest comes from a stranger
        if self.transform:
            squared = sum(each.longest_squared(bits) for each in self.transform)
        else:
            squared = self._columns_squared(bits)
        return int(squared + self.intercept * 4**bits)

    def _columns_squared(self, bits: int) -> int:
        if isinstance(self.features, Uniform):
            most = min(self.features.count, self.nonzeros or self.features.count)
            return int(most * integer_of(self.features.largest, bits) ** 2)
        return sum(feature.longest_squared(bits) for feature in self.features)

    @property
    def outputs(self) -> int:
        """Of a model that predicts the target."""
        return len(self.target.classes) if self.target.kind == "classes" else 1

    def as_json(self) -> dict[str, Any]:
        """The manifest's form; `schema_from_json` is its inverse."""
        body = plain(self)
        body["features"] = features_as_json(self.features)
        body["target"] = plain(self.target)
        if self.transform:
            body["transform"] = transforms_as_json(self.transform)
        return body


def schema_from_json(body: dict[str, Any]) -> Schema:
    """From a manifest or a study; all that is wrong with it is said at once."""
    refuse_draft(body)
    values, collected = dict(body), Collected()
    values["features"] = collected.look("features", lambda: features_from(body.get("features")))
    values["target"] = collected.look(name_of(body.get("target"), "target"), lambda: target_from(body.get("target")))
    if "transform" in body:
        values["transform"] = collected.look("transform", lambda: transforms_from(body["transform"]))
    collected.finish()
    schema: Schema = build(Schema, values, "schema")
    return schema
