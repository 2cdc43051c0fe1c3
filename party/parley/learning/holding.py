"""What an institution's records are, in its own words: schema.toml, written by its operator.

    units = 300                        # how many units of privacy the files hold: public, as manifests count them
    format = "csv"                     # csv, parquet, jsonl, libsvm, npz, idx: nobody else's business
    delimiter = ","                    # and header, columns, skip, encoding, missing: see `Layout`
    unit = "patient"                   # the column that says whose record it is; with records_per_unit
    target = { name = "sick", kind = "binary", positive = ["1"], negative = ["0"] }      # or targets = [ … ]
    features = [ { name = "age", low = 20, high = 90 }, … ]                              # every column a study may use

A manifest says which of these columns a run uses and is judged against this file alone, before a record is read: so
whether this party takes part, and when it says so, is a function of two documents and of no record. The columns of a
manifest must BE the institution's: a bound, a category, a rule or a label of its own choice would let whoever writes
manifests ask whether some record lies beyond it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from parley.federation.files import Problem, file_bytes, toml_table
from parley.learning.checks import check_flag, check_texts, check_whole
from parley.learning.columns import LATER, Category, Column, Date, Features, Number, Target, Uniform
from parley.learning.days import DAY, check_days
from parley.learning.errors import Collected, SchemaError
from parley.learning.located import located
from parley.learning.schema import Schema, schema_from_json
from parley.learning.schema_tables import (
    build,
    features_as_json,
    features_from,
    name_of,
    plain,
    refuse_draft,
    target_from,
)

FORMATS = ("csv", "parquet", "jsonl", "libsvm", "npz", "idx")
ENCODINGS = ("utf-8", "latin-1", "cp1252", "utf-16")
MOST_BYTES = 1 << 22
MOST_SKIPPED = 1_000_000
LARGEST_UNITS = 1 << 40
FINEST, COARSEST = 2.0**-10, 2.0**20
"""What the bound of an encoded column may be, whatever spread a manifest chooses."""


@dataclass(frozen=True)
class Layout:
    """What a file looks like."""

    format: str = "csv"
    delimiter: str = ","
    header: bool = True
    columns: tuple[str, ...] = ()
    """Names, for a file without a header."""
    skip: int = 0
    """Lines before the header or the first row."""
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ("", "?", "NA", "NaN", "nan", "N/A", "null")
    """Cells that count as empty. A seal rests on how cells are read: whoever changes what is usual here changes
    `parley.party.seal.FORMAT`."""
    days: str = field(default=DAY, metadata=LATER)
    """How the cells of dates are written, as in %d.%m.%Y; the usual form is 1990-12-31."""

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise SchemaError(f"format is {str(self.format)[:40]!r}: use {', '.join(FORMATS)}")
        if self.encoding not in ENCODINGS:
            raise SchemaError(f"encoding is {str(self.encoding)[:40]!r}: use {', '.join(ENCODINGS)}")
        if not isinstance(self.delimiter, str) or len(self.delimiter) != 1 or self.delimiter in '"\r\n ':
            raise SchemaError(f"delimiter is {str(self.delimiter)[:40]!r}: give one character, such as ; or a tab")
        check_flag("the file", "header", self.header)
        check_whole("the file", "skip", self.skip, 0, MOST_SKIPPED)
        check_texts("the file", "missing", self.missing)
        check_days(self.days)
        if len(set(check_texts("the file", "columns", self.columns))) < len(self.columns):
            raise SchemaError("columns names one column twice: list each once")
        if self.tabular and not self.header and not self.columns:
            raise SchemaError("a file without a header needs columns: list their names in order")

    @property
    def tabular(self) -> bool:
        return self.format in ("csv", "parquet", "jsonl")

    def check_features(self, features: Features) -> None:
        """Whether a file of this form can hold such columns."""
        if isinstance(features, Uniform) == self.tabular:
            raise SchemaError(f"a {self.format} file needs features {'by name' if self.tabular else 'as one count'}")
        if self.format != "libsvm" or not isinstance(features, Uniform):
            return
        if features.centre != 0 or not features.low <= 0 <= features.high:
            raise SchemaError("a sparse file's features need a centre of 0 within bounds, for what is not stored")

    def as_json(self) -> dict[str, Any]:
        """The table that `build` reads."""
        return plain(self)


CSV = Layout()
LAYOUT_FIELDS = frozenset(field.name for field in fields(Layout))
STUDY_FIELDS = ("intercept", "bits", "transform")
"""What is for a study to choose and not for an institution."""


@dataclass(frozen=True)
class Holding:
    """What an institution says of its records."""

    layout: Layout
    features: Features
    targets: tuple[Target, ...]
    units: int
    """How many units of privacy there are."""
    unit: str | None = None
    records_per_unit: int = 1
    nonzeros: int | None = None

    def __post_init__(self) -> None:
        check_whole("schema.toml", "units", self.units, 1, LARGEST_UNITS)
        if not self.targets or len({each.name for each in self.targets}) < len(self.targets):
            raise SchemaError("targets: give at least one, each column once")
        if not self.layout.tabular and len(self.targets) > 1:
            raise SchemaError(f"a {self.layout.format} file has one target: give one")
        self.layout.check_features(self.features)
        for schema in self.whole():
            self.layout.check_features(schema.features)

    def whole(self) -> Iterator[Schema]:
        """Schemas that together use every column: one for each target."""
        for target in self.targets:
            yield Schema(
                features=self._others(target),
                target=target,
                unit=self.unit,
                records_per_unit=self.records_per_unit,
                nonzeros=self.nonzeros,
                bits=0,
            )

    def _others(self, target: Target) -> Features:
        """All features, but for a column that is this target's."""
        if isinstance(self.features, Uniform):
            return self.features
        return tuple(each for each in self.features if each.name != target.name)

    def as_json(self) -> dict[str, Any]:
        """schema.toml's table; `holding_from` is its inverse."""
        body: dict[str, Any] = {"units": self.units, **self.layout.as_json()}
        if self.unit is not None:
            body |= {"unit": self.unit, "records_per_unit": self.records_per_unit}
        if self.nonzeros is not None:
            body["nonzeros"] = self.nonzeros
        return body | {
            "targets": [plain(each) for each in self.targets],
            "features": features_as_json(self.features),
        }


def holding_from(body: dict[str, Any]) -> Holding:
    """From schema.toml's table; unknown fields are refused, and all that is wrong is said at once."""
    refuse_draft(body)
    values, found = dict(body), Collected()
    for name in STUDY_FIELDS:
        if values.pop(name, None) is not None:
            found.add(name, f"{name} is for a study to choose: leave it out of schema.toml")
    layout = found.look("", lambda: _layout(values))
    if ("target" in values) == ("targets" in values):
        found.add("", "give either target, one table, or targets, a list of them")
    targets = values.pop("targets", None) or [values.pop("target", None)]
    if not isinstance(targets, list):
        found.add("targets", "targets: give a list of tables")
        targets = []
    if "units" not in values:
        found.add("", "units is missing: say how many units of privacy the files hold")
    made = [found.look(name_of(each, "target"), partial(target_from, each)) for each in targets if each is not None]
    features = found.look("features", lambda: features_from(values.get("features")))
    found.finish()
    holding: Holding = build(
        Holding, {**values, "layout": layout, "targets": tuple(made), "features": features}, "schema.toml"
    )
    return holding


def described(body: dict[str, Any]) -> tuple[Layout, Schema]:
    """One document that says both: what public files look like and what a run uses of them, for simulations."""
    refuse_draft(body)
    values = dict(body)
    layout = _layout(values)
    schema = schema_from_json(values)
    layout.check_features(schema.features)
    return layout, schema


def holding_of(body: dict[str, Any], units: int) -> Holding:
    """What an institution with so many units would write, whose columns are those of such a document."""
    layout, schema = described(body)
    return held(schema, layout, units)


def held(schema: Schema, layout: Layout, units: int) -> Holding:
    """What an institution would write whose columns are exactly a study's."""
    return Holding(
        layout, schema.features, (schema.target,), units, schema.unit, schema.records_per_unit, schema.nonzeros
    )


def read_holding(path: Path) -> Holding:
    """From schema.toml."""
    return holding_from_bytes(holding_bytes(path), path.name)


def read_layout(path: Path) -> Layout:
    """What files look like, from a schema.toml or from one that says no more than that: for public test sets."""
    data = holding_bytes(path)
    with located(data, path.name):
        body = toml_table(data, _wrong(path.name))
        refuse_draft(body)
        return _layout(body)


def holding_bytes(path: Path) -> bytes:
    """The file, bounded."""
    return file_bytes(path, _wrong(path.name), "write it, see `parley init`", MOST_BYTES)


def holding_from_bytes(data: bytes, name: str = "schema.toml") -> Holding:
    """Errors say the file's lines."""
    body = toml_table(data, _wrong(name))
    with located(data, name):
        return holding_from(body)


def _wrong(name: str) -> Problem:
    return lambda what: SchemaError(f"{name} {what}")


def layout_by_name(path: Path) -> Layout:
    """A file's form by its name: .csv, .parquet, .jsonl, .npz, or LIBSVM text; with .xz, .bz2, .gz too."""
    suffixes = [each for each in path.suffixes if each not in (".xz", ".bz2", ".gz")]
    last = suffixes[-1][1:] if suffixes else ""
    return Layout(last if last in ("csv", "parquet", "jsonl", "npz") else "libsvm")


def _layout(values: dict[str, Any]) -> Layout:
    """Takes the fields of a file's form out of a table."""
    layout: Layout = build(Layout, {name: values.pop(name) for name in LAYOUT_FIELDS & set(values)}, "the file")
    return layout


def judge(held: Holding, wanted: Schema) -> tuple[str, str] | None:
    """The first field in which a manifest's schema is not the institution's, and what is wrong with it.

    Reads two documents and no record. What a manifest may choose: which of the columns, in which order, `intercept`,
    `bits`, what transforms them (code is admitted by the policy, by name and digest), and the encoding (`centre`,
    `spread`) of a number within limits; none of these can make a record fail.
    """
    for name, found, due in (
        ("schema.unit", wanted.unit, held.unit),
        ("schema.records_per_unit", wanted.records_per_unit, held.records_per_unit),
        ("schema.nonzeros", wanted.nonzeros, held.nonzeros),
    ):
        if found != due:
            return name, f"is {found!r} and this party's is {due!r}: make them agree"
    target = next((each for each in held.targets if each.name == wanted.target.name), None)
    if target is None:
        return "schema.target", "is not a target of this party's schema: choose one of its targets"
    if target != wanted.target:
        return "schema.target", f"differs from this party's {_difference(wanted.target, target)}: write the party's"
    if isinstance(wanted.features, Uniform) or isinstance(held.features, Uniform):
        return _judge_uniform(held, wanted)
    own = {each.name: each for each in held.features}
    for index, column in enumerate(wanted.features):
        if (problem := _judge_column(column, own.get(column.name))) is not None:
            return f"schema.features[{index}]", problem
    return None


def _judge_uniform(held: Holding, wanted: Schema) -> tuple[str, str] | None:
    one, own = wanted.features, held.features
    if not isinstance(one, Uniform) or not isinstance(own, Uniform):
        return "schema.features", "and this party's are not of one form: by name, or under one bound as the party's"
    for what in ("count", "low", "high", "whole"):
        if getattr(one, what) != getattr(own, what):
            return f"schema.features.{what}", "differs from this party's: write the party's"
    if held.layout.format == "libsvm" and one.centre != 0:
        return "schema.features.centre", "is not 0, and this party's files are sparse: write 0"
    return _judge_encoding("schema.features", one)


CHOSEN = ("centre", "spread")
"""Of a number or a date: a manifest's own choice, within limits."""


def _judge_column(column: Column, own: Column | None) -> str | None:
    if own is None:
        return "is not a column of this party's schema: leave it out, or agree on it with the party"
    if type(column) is not type(own):
        return "is of another kind than this party's column of that name: write the party's"
    for each in fields(column):
        chosen = each.name in CHOSEN or not each.compare
        if not chosen and getattr(column, each.name) != getattr(own, each.name):
            return f"differs from this party's {each.name}: write the party's"
    found = None if isinstance(column, Category) else _judge_encoding("", column)
    return None if found is None else found[1]


def _judge_encoding(field: str, column: Number | Date | Uniform) -> tuple[str, str] | None:
    low, high = column.ends
    if not low <= column.centre <= high:
        return field, "has a centre outside its bounds: put it within"
    if not FINEST <= column.largest <= COARSEST:
        return field, f"is encoded up to {column.largest:.3g}: choose a spread with {FINEST:.3g} to {COARSEST:.3g}"
    return None


def _difference(one: Any, other: Any) -> str:
    compared = (each.name for each in fields(one) if each.compare)
    return next(name for name in compared if getattr(one, name) != getattr(other, name))
