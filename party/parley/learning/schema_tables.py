"""Tables of a document, as TOML and JSON have them, and the columns that they mean; one is the other's inverse.

Unknown fields are refused, for they might have meant something. What is wrong with a document is said all at once.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import MISSING, Field, fields, replace
from functools import partial
from typing import Any

from parley.learning.checks import LONGEST_TEXT, check_finite, check_text, check_texts
from parley.learning.columns import KINDS, Column, Date, Features, Number, Target, Uniform, day_of
from parley.learning.errors import Collected, SchemaError
from parley.learning.patterns import MOST_EXPANDED, count_of, expanded, shortened

DRAFT = "draft"
"""The mark of a draft, which holds words from records and is not for others yet."""


def refuse_draft(body: Mapping[str, Any]) -> None:
    """Whoever reads a schema asks this first."""
    if DRAFT in body:
        raise SchemaError(
            "this schema is a draft, which may hold words from records: give bounds, take categories from a public "
            "codebook and name it, then run `parley schema confirm`"
        )


def features_from(found: Any) -> Features:
    """A list of columns, or one table for many."""
    if isinstance(found, dict):
        uniform: Uniform = build(Uniform, found, "features")
        return uniform
    if not isinstance(found, list | tuple):
        raise SchemaError("features: give a list of columns, or one table with count, low and high")
    collected, columns, room = Collected(), list[Column](), MOST_EXPANDED
    for body in found:
        where = name_of(body)
        names = collected.look(where, partial(_names, body, room))
        if names is None:
            continue
        room -= len(names) if _is_group(body) else 0
        if (first := collected.look(where, partial(_feature, body, names[0]))) is not None:
            columns.append(replace(first, group=str(body.get("name") or names[0])) if _is_group(body) else first)
            columns += collected.look(where, partial(_renamed, columns[-1], names[1:])) or []
    collected.finish()
    return tuple(columns)


def _renamed(column: Column, names: list[str]) -> list[Column]:
    """Columns of one meaning, which is checked once: checked for each name, a short manifest would cost hours."""
    found = []
    for name in names:
        again = copy(column)
        object.__setattr__(again, "name", check_text("features", "a name", name))
        found.append(again)
    return found


def name_of(body: Any, otherwise: str = "a feature") -> str:
    """What messages call an entry, whatever it is."""
    if not isinstance(body, dict):
        return otherwise
    names = body.get("names")
    return str(body.get("name") or (names[0] if isinstance(names, list) and names else otherwise))[:LONGEST_TEXT]


def _is_group(body: dict[str, Any]) -> bool:
    return "names" in body or (isinstance(body.get("name"), str) and count_of(body["name"]) > 1)


def _names(body: Any, room: int) -> list[str]:
    """The columns of one entry."""
    if not isinstance(body, dict):
        raise SchemaError("features: each is a table with name, low and high, or with name and categories")
    if "names" in body:
        names = list(check_texts("features", "names", tuple(body["names"]) if _is_list(body["names"]) else None))
        if "name" in body or not names:
            raise SchemaError("features: give an entry either name, or names with at least one of them")
    else:
        name = body.get("name")
        if not isinstance(name, str):
            return [""]  # for the column's own check to refuse
        if count_of(name) > 1 and room < count_of(name):
            raise SchemaError(f"{name}: patterns stand for over {MOST_EXPANDED:,} columns, give features one count")
        names = expanded(name)
    return names


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _feature(body: dict[str, Any], name: str) -> Column:
    values = {each: value for each, value in body.items() if each not in ("kind", "names", "name")}
    if "name" in body or "names" in body:
        values["name"] = name or body.get("name")
    kind, where = body.get("kind", "number"), name or "a feature"
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"{where}: kind is {str(kind)[:40]!r}, use number, date or category")
    if kind == "number" and "kind" not in body and "categories" in body:
        raise SchemaError(f'{where}: has categories and no kind, write kind = "category"')
    if {"low", "high"} <= set(values) and not {"centre", "spread"} <= set(values) and kind != "category":
        low, high = _ends(where, kind, values)
        values.setdefault("centre", (low + high) / 2)
        values.setdefault("spread", (high - low) / 2)
    column: Column = build(KINDS[kind], values, where)
    return column


def _ends(where: str, kind: str, values: dict[str, Any]) -> tuple[float, float]:
    """On the scale of centre and spread; an error where the bounds are none."""
    if kind == "date":
        days = [day_of(where, what, values[what]) for what in ("low", "high")]
        return Date(where, days[0], days[1], 0.0, 1.0).ends
    low, high = (check_finite(where, what, values[what]) for what in ("low", "high"))
    return Number(where, low, high, 0.0, 1.0, transform=values.get("transform", "none")).ends


def target_from(found: Any) -> Target:
    """One table."""
    if not isinstance(found, dict):
        raise SchemaError("target: give a table with name and kind")
    values, where = dict(found), name_of(found, "target")
    if values.get("kind") == "number" and "low" in values and "high" in values:
        # As a feature's: a number of hundreds in a loss whose gradients are clipped to 1 would hardly be learnt.
        low, high = (check_finite(where, what, values[what]) for what in ("low", "high"))
        values.setdefault("centre", (low + high) / 2)
        values.setdefault("spread", (high - low) / 2)
    target: Target = build(Target, values, where)
    return target


GIVEN_LATER = ("centre", "spread")
"""What follows from low and high where nobody gives it."""


def build(kind: Any, values: dict[str, Any], where: str) -> Any:
    """A dataclass from a table, each field by name."""
    known = [each for each in fields(kind) if not each.metadata.get("unwritten")]
    names = [each.name for each in known]
    wrong = [f"no field {str(name)[:40]!r}, use {', '.join(sorted(names))}" for name in values if name not in names]
    needed = [each.name for each in known if _required(each) and each.name not in values]
    if needed := [name for name in needed if name not in GIVEN_LATER] or needed:
        wrong.append(f"give {' and '.join(needed)}")
    if wrong:
        raise SchemaError(f"{where}: {'; '.join(wrong)}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _required(each: "Field[Any]") -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def plain(value: Any) -> dict[str, Any]:
    """A dataclass as a table, as `build` reads it."""
    found = {each.name: getattr(value, each.name) for each in fields(value) if _is_written(value, each)}
    return {name: list(each) if isinstance(each, tuple) else each for name, each in found.items()}


def _is_written(value: Any, each: "Field[Any]") -> bool:
    if each.metadata.get("unwritten"):
        return False
    return not each.metadata.get("later") or getattr(value, each.name) != each.default


def features_as_json(features: Features) -> Any:
    """As documents hold them."""
    if isinstance(features, Uniform):
        return plain(features)
    return [_entry(run) for run in _runs(features)]


def _entry(run: list[Column]) -> dict[str, Any]:
    body = {"kind": type(run[0]).__name__.lower(), **plain(run[0])}
    named = shortened([each.name for each in run])
    if "name" in named:
        return body | named
    del body["name"]
    return {"kind": body.pop("kind"), **named, **body}


def _runs(columns: tuple[Column, ...]) -> Iterator[list[Column]]:
    """Neighbours that one entry stands for."""
    run: list[Column] = []
    for column in columns:
        if run and not (column.group and column.group == run[0].group and _means(column, run[0])):
            yield run
            run = []
        run.append(column)
    if run:
        yield run


def _means(one: Column, other: Column) -> bool:
    """Whether they differ in their names alone."""
    return one.source == other.source and _renamed(one, [other.name]) == [other]
