"""A schema beside a file: columns and words that are in one of them only. It tells of records: for local eyes.

Reads drafts too, and columns that are not complete yet: it is for whoever writes a schema.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from parley.federation.files import toml_table
from parley.learning.cells import emptiness
from parley.learning.checks import label_of
from parley.learning.columns import Category, Column, Target
from parley.learning.errors import Collected, DataError, SchemaError
from parley.learning.fit import Fit, look_at
from parley.learning.holding import LAYOUT_FIELDS, Layout, holding_bytes
from parley.learning.located import line_of
from parley.learning.patterns import RANGE
from parley.learning.readers import Table, read
from parley.learning.schema_tables import DRAFT, build, features_from, name_of, target_from
from parley.learning.sniff import sniffed
from parley.learning.spreads import warnings_of

MARKED = "it is a draft: run `parley schema confirm` once it is complete"


@dataclass
class Difference:
    """What was found."""

    open: list[str] = field(default_factory=list)
    """What the schema does not say yet, or says wrongly."""
    absent: list[str] = field(default_factory=list)
    """Columns of the schema that the file does not have."""
    unused: list[str] = field(default_factory=list)
    """Columns of the file of which the schema says nothing."""
    unlisted: dict[str, dict[str, int]] = field(default_factory=dict)
    """By column: words of the file that the schema does not list, and in how many rows."""
    problems: list[str] = field(default_factory=list)
    """Columns that do not fit, each with its first row."""
    warnings: list[str] = field(default_factory=list)
    """Bounds that do not suit the records."""

    @property
    def fits(self) -> bool:
        return not (self.open or self.absent or self.problems)

    @property
    def complete(self) -> bool:
        """Whether a draft fits, and only a person's word is missing."""
        return self.open == [MARKED] and not (self.absent or self.problems)


def difference(schema: Path, file: Path) -> Difference:
    """A schema.toml, its draft, or a study with a [schema], beside a table."""
    data = holding_bytes(schema)
    body = toml_table(data, lambda what: SchemaError(f"{schema.name} {what}"))
    if isinstance(body.get("schema"), dict):
        body = body["schema"]
    layout = _layout(body, file)
    table = read([file], layout, "")
    if not isinstance(table, Table):
        raise DataError(f"{file.name} is no table with names: `parley schema check` compares other files")
    found = Difference()
    columns = _columns(body, found, data.decode(errors="replace"))
    named = [each.name for each in columns]
    own = {*named, *_open_names(body), *([body["unit"]] if isinstance(body.get("unit"), str) else [])}
    found.absent = [name for name in dict.fromkeys([*named, *sorted(own - set(named))]) if _absent(name, table)]
    found.unused = [name for name in table.columns if name not in own]
    fitting = Fit()
    look_at(fitting, table, [each for each in columns if each.name in table.columns], layout)
    found.problems, found.warnings = fitting.problems, warnings_of(fitting.spreads)
    for column in columns:
        words = _unlisted(column, table, layout) if column.name in table.columns else {}
        if words:
            found.unlisted[column.name] = words
    return found


def _layout(body: dict[str, Any], file: Path) -> Layout:
    told = {name: body[name] for name in LAYOUT_FIELDS & set(body)}
    layout: Layout = build(Layout, told, "the file") if told else sniffed(file)
    return layout


def _columns(body: dict[str, Any], found: Difference, text: str) -> list[Column | Target]:
    """What can be made of them; the rest is open."""
    collected, columns = Collected(), list[Column | Target]()
    features = body.get("features", [])
    if not isinstance(features, list):
        raise SchemaError("features under one bound have no names: diff compares tables")
    for entry in features:
        columns += collected.look(name_of(entry), partial(_named, entry)) or ()
    targets = body.get("targets", [body["target"]] if "target" in body else [])
    for entry in targets if isinstance(targets, list) else []:
        target = collected.look(name_of(entry), partial(target_from, entry))
        columns += [] if target is None else [target]
    try:
        collected.finish()
    except SchemaError as error:
        for each in error.problems:
            line = line_of(text, each.where)
            found.open.append(f"line {line}: {each.text}" if line else each.text)
    if DRAFT in body:
        found.open.append(MARKED)
    return columns


def _open_names(body: dict[str, Any]) -> set[str]:
    """Whatever it names, complete or not."""
    entries = [each for each in [*body.get("features", []), body.get("target")] if isinstance(each, dict)]
    listed = [name for each in entries if isinstance(each.get("names"), list) for name in each["names"]]
    return {str(name) for name in [*listed, *(each["name"] for each in entries if "name" in each)]}


def _named(entry: Any) -> tuple[Column, ...]:
    found = features_from([entry])
    assert isinstance(found, tuple)
    return found


def _absent(name: str, table: Table) -> bool:
    return name not in table.columns and RANGE.search(name) is None  # an entry that is not complete


def _unlisted(column: Column | Target, table: Table, layout: Layout) -> dict[str, int]:
    if isinstance(column, Category):
        listed = column.categories
    elif isinstance(column, Target) and column.kind != "number":
        listed = (*column.positive, *column.negative, *column.classes)
    else:
        return {}
    known, empty = {label_of(each) for each in listed}, emptiness(layout.missing)
    counts = Counter(label_of(cell) for cell in table.columns[column.name] if not empty(cell))
    return {word: count for word, count in counts.most_common() if word not in known}
