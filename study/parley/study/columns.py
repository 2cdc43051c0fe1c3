"""What a user may give as a schema: the columns themselves, as a table, or an institution's schema.toml."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from parley.federation.files import file_bytes, toml_table
from parley.learning.columns import Uniform
from parley.learning.errors import SchemaError
from parley.learning.holding import CSV, MOST_BYTES, Layout, holding_from, layout_by_name
from parley.learning.located import located
from parley.learning.schema import Schema, schema_from_json
from parley.study.errors import StudyError

ONE = {"units": 1}
"""How many units a file holds is no matter of what its columns mean."""


def columns_of(given: Schema | Path | str | Mapping[str, Any]) -> tuple[Schema, Layout | None]:
    """The columns, and what files look like where an institution's schema.toml says it.

    A schema.toml lists every column that a study may use: all of them are taken, and an intercept.
    """
    if isinstance(given, Schema):
        return given, None
    if isinstance(given, Mapping):
        return schema_from_json(dict(given)), None
    path = Path(given)
    data = file_bytes(path, lambda what: StudyError(f"{path} {what}"), most_bytes=MOST_BYTES)
    body = toml_table(data, lambda what: StudyError(f"{path} {what}"))
    if "privacy" in body:
        raise StudyError(f"{path.name} is a study: read it with parley.study.read")
    with located(data, path.name):
        holding = holding_from({**ONE, **body})
    targets = [each.name for each in holding.targets]
    if len(targets) > 1:
        raise SchemaError(f"{path.name} has {len(targets)} targets ({', '.join(targets)}): give a [schema] with one")
    return replace(next(holding.whole()), bits=Schema.bits, intercept=True), holding.layout


def layout_for(path: Path, schema: Schema, layout: Layout | None) -> Layout:
    """What this file looks like: as its schema.toml says, or as its name tells where that is another form."""
    named = layout_by_name(path)
    if named.format == "libsvm" and not isinstance(schema.features, Uniform):
        named = CSV  # columns by name: a name that tells nothing is no LIBSVM file
    if layout is None:
        return named
    told = any(suffix in (".csv", ".parquet", ".npz") for suffix in path.suffixes)
    return (
        replace(named, missing=layout.missing, days=layout.days) if told and named.format != layout.format else layout
    )
