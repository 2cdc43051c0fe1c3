"""A manifest's schema in plain words, for the person who has to approve it.

This folder does not know `parley.learning.schema`, and a manifest comes from a stranger: what is odd is shown as is,
cut short.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

MOST_COLUMNS = 24
"""Shown one by one; the manifest has them all."""
MOST_LABELS = 8
MOST_LETTERS = 60
RANGE = re.compile(r"\{([0-9]{1,9})\.\.([0-9]{1,9})\}")
MOST_SEARCHED = 1000
RULES = {
    "refuse": "not allowed",
    "zero": "left out",
    "centre": "the middle value",
    "indicator": "marked in a column of their own",
}
WHERE = "all of them are in the manifest's [schema], and each is as this institution's schema.toml has it"


def sentences(schema: Mapping[str, Any]) -> list[str]:
    """Columns with bounds or categories, what becomes of empty and unlisted cells, the target, the unit."""
    return [_columns(schema), _target(schema.get("target")), _unit(schema)]


def listed(names: Sequence[str]) -> str:
    """The first of many, and how many more there are."""
    shown = ", ".join(names[:MOST_COLUMNS])
    return f"{shown} and {len(names) - MOST_COLUMNS:,} more" if len(names) > MOST_COLUMNS else shown


def _columns(schema: Mapping[str, Any]) -> str:
    features = schema.get("features")
    if isinstance(features, Mapping):
        low, high = _short(features.get("low")), _short(features.get("high"))
        return f"Columns: {_short(features.get('count'))} numbers, each cut to [{low}, {high}]; no names."
    if not isinstance(features, list | tuple):
        return f"Columns: {_short(features)}."
    shown = "; ".join(_column(each) for each in features[:MOST_COLUMNS])
    more = f"; and {len(features) - MOST_COLUMNS:,} more: {WHERE}" if len(features) > MOST_COLUMNS else ""
    count = sum(_count(each) for each in features)
    return f"Columns, {count:,}: {shown}{more}."


def _count(feature: Any) -> int:
    """One entry may stand for many columns: a list of names, or a range in a name."""
    if not isinstance(feature, Mapping):
        return 1
    names, name = feature.get("names"), feature.get("name")
    if isinstance(names, list | tuple):
        return len(names)
    match = RANGE.search(name[:MOST_SEARCHED]) if isinstance(name, str) else None
    return 1 if match is None else max(1, int(match[2]) - int(match[1]) + 1)


def _column(feature: Any) -> str:
    if not isinstance(feature, Mapping):
        return _short(feature)
    names, missing = feature.get("names"), feature.get("missing", "refuse")
    name = _labels(names) if isinstance(names, list | tuple) else _short(feature.get("name"))
    if feature.get("kind", "number") == "category":
        other = feature.get("other", "refuse")
        return f"{name}: {_labels(feature.get('categories'))}, {_rule('empty', missing)}, {_rule('unlisted', other)}"
    low, high = _short(feature.get("low")), _short(feature.get("high"))
    what = "a day" if feature.get("kind") == "date" else "a number"
    transform = feature.get("transform", "none")
    turned = "" if transform == "none" else f", turned by {_short(transform)}"
    return f"{name}: {what} cut to [{low}, {high}]{turned}, {_rule('empty', missing)}"


def _rule(what: str, rule: Any) -> str:
    return f"{what} cells {RULES.get(str(rule)) or f'become {_short(rule)}'}"


def _target(target: Any) -> str:
    if not isinstance(target, Mapping):
        return f"Target: {_short(target)}."
    name, kind = _short(target.get("name")), target.get("kind")
    if kind == "binary":
        what = f"{_labels(target.get('positive'))} against {_labels(target.get('negative'))}"
    elif kind == "classes":
        what = _labels(target.get("classes"))
    else:
        what = f"a number cut to [{_short(target.get('low', 0.0))}, {_short(target.get('high', 1.0))}]"
    return f"Target: {name}, {what}."


def _unit(schema: Mapping[str, Any]) -> str:
    unit = schema.get("unit")
    if unit is None:
        return "Whose record it is: each row counts as one unit of its own."
    most = _short(schema.get("records_per_unit", 1))
    return f"Whose record it is: column {_short(unit)}; of each unit at most {most} records are used."


def _labels(labels: Any) -> str:
    if not isinstance(labels, list | tuple):
        return _short(labels)
    shown = ", ".join(_short(each) for each in labels[:MOST_LABELS])
    return f"{shown} and {len(labels) - MOST_LABELS:,} more" if len(labels) > MOST_LABELS else shown


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    text = "".join(each if each.isprintable() else "?" for each in text[: MOST_LETTERS + 1])
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 3] + "..."
