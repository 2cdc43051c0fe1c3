"""A first schema.toml from an institution's own file, on its operator's machine; and a person's word that it is public.

A draft holds words from records. It carries a mark, `draft = true`, with which every reader of a schema refuses it,
until a person has given bounds and named the public codebook of each column of categories: `confirmed` takes the mark
off, and with it every line that begins with #~. What a draft proposes by itself does not depend
on how often anything is there: empty cells and words that are not listed have the same rule in every column.
"""

import datetime
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from parley.federation.files import toml_table
from parley.federation.toml_text import toml_text
from parley.learning.checks import check_text
from parley.learning.errors import Collected, SchemaError
from parley.learning.guess import FORMS, Guess, guesses
from parley.learning.holding import CSV, Holding, Layout, holding_bytes, holding_from
from parley.learning.known import FLAG
from parley.learning.located import located
from parley.learning.patterns import shortened
from parley.learning.readers import Table, read
from parley.learning.schema_tables import DRAFT
from parley.learning.sniff import sniffed

PRIVATE = "#~"
"""Begins a line that is for the operator alone: most tell of records."""
LEAST_GROUP = 3
"""Neighbours of one meaning that become one entry."""
POSITIVE = ("1", "yes", "y", "true", "t", "positive", "pos", "+1", "case", "dead", "died")
NEGATIVE = ("0", "no", "n", "false", "f", "negative", "neg", "-1", "control", "alive", "survived")
SHOWN = 8
HEAD = f"""\
{PRIVATE} A draft. It is private: it holds words from the records of one file, and no reader of a schema takes it.
{PRIVATE}
{PRIVATE} 1. Give every column of numbers or days low and high, from a codebook or the literature, not from the records.
{PRIVATE} 2. In every column of categories, keep the words that a public codebook lists, and name it as source. What is
{PRIVATE}    not listed becomes no category (other = "zero").
{PRIVATE} 3. Leave out the columns that no study needs, and say what is predicted in [target].
{PRIVATE} 4. parley schema confirm FILE --by "your name"
{PRIVATE}
{PRIVATE} All keys are in docs/schema.md. Lines like these are for you alone: confirm removes them.
"""


def draft(path: Path, target: str | None = None) -> str:
    """The text of schema.toml for this file: CSV of whatever form, or Parquet."""
    layout = sniffed(path)
    table = read([path], layout, "")
    assert isinstance(table, Table)
    seen = guesses(table)
    if target is not None and target not in table.columns:
        raise SchemaError(f"no column {target!r} in {path.name}: it has {', '.join(list(table.columns)[:20])}")
    gaps = sorted({word for each in seen for word in each.gaps} - set(CSV.missing))
    forms = [each.form for each in seen if each.kind == "date"]
    layout = replace(layout, missing=(*CSV.missing, *gaps), days=forms[0] if forms else CSV.days)
    parts = [HEAD, _top(table, layout, seen, target), _target(seen, target), *_columns(seen, target, layout)]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _top(table: Table, layout: Layout, seen: list[Guess], target: str | None) -> str:
    told = {each.name: getattr(layout, each.name) for each in fields(Layout)}
    kept = {name: value for name, value in told.items() if value != getattr(CSV, name) or name == "format"}
    lines = [f"{DRAFT} = true", "", toml_text({"units": table.count})]
    units = [each.name for each in seen if each.kind == "identifier" and each.repeats and each.name != target]
    if units:
        lines += [
            f"{PRIVATE} values of {_listed(units)} are in several rows: where one person has",
            f"{PRIVATE} several rows, units is the number of persons, and unit names the column:",
            f"{PRIVATE} unit = {_toml(units[0])}",
            f"{PRIVATE} records_per_unit = 1      # a public cap on how many records of each unit are used",
        ]
    return "\n".join([*lines, toml_text(kept)])


def _target(seen: list[Guess], target: str | None) -> str:
    one = next((each for each in seen if each.name == target), None)
    if one is None:
        return f"[target]\n{PRIVATE} name = …    # the column that is predicted\n{PRIVATE} kind = …    # its kind"
    body: dict[str, Any] = {"name": one.name}
    said = [] if not one.words else [f"{PRIVATE} its words: {_listed(one.words)}"]
    words = ("0", "1") if one.known is FLAG else one.words
    if len(words) == 2:
        positive = [word for word in words if word.lower() in POSITIVE]
        negative = [word for word in words if word.lower() in NEGATIVE]
        told = len(positive) == len(negative) == 1
        body |= {"kind": "binary", "positive": positive if told else [], "negative": negative if told else []}
    elif words:
        body |= {"kind": "classes", "classes": list(words)}
    else:
        body |= {"kind": "number"} | _bounds(one)
        said += (
            [] if one.known else [f"{PRIVATE} low = …", f"{PRIVATE} high = …    # public bounds of what is predicted"]
        )
    if "classes" in body or "positive" in body:
        body["source"] = ""
        said.append(f"{PRIVATE} source: the public codebook that lists these labels")
    return "\n".join(["[target]", toml_text(body), *said])


def _columns(seen: list[Guess], target: str | None, layout: Layout) -> Iterator[str]:
    left: list[str] = []
    for run in _runs([each for each in seen if each.name != target]):
        if run[0].kind in ("text", "identifier", "empty"):
            why = {"text": "text", "identifier": "an identifier", "empty": "always empty"}[run[0].kind]
            left += [f"{PRIVATE} {each.name}: {why}, {each.distinct:,} different values" for each in run]
        else:
            yield _entry(run, layout)
    if left:
        yield "\n".join([f"{PRIVATE} left out:", *left])


def _runs(seen: list[Guess]) -> Iterator[list[Guess]]:
    """Neighbours that one entry may stand for: flags, and numbers whose names are a range."""
    run: list[Guess] = []
    for one in [*seen, None]:
        alike = one is not None and run and one.kind == run[0].kind == "number" and one.known == run[0].known
        if alike and one is not None and not one.odd:
            run.append(one)
            continue
        groups = len(run) >= LEAST_GROUP and (run[0].known is FLAG or "name" in shortened([e.name for e in run]))
        yield from [run] if groups else [[each] for each in run]
        run = [] if one is None else [one]


def _entry(run: list[Guess], layout: Layout) -> str:
    one = run[0]
    body = shortened([each.name for each in run])
    if one.kind == "category":
        body |= {"kind": one.kind, "categories": list(one.words), "missing": "zero", "other": "zero", "source": ""}
        notes = [f"{PRIVATE} source: the public codebook; keep the words that it lists"]
        if all(_is_whole(word) for word in one.words):
            notes.append(f"{PRIVATE} or a number: {_toml(one.name)} with low and high")
    else:
        body |= {"kind": one.kind, **_bounds(one), "missing": "centre"}
        what = "public bounds: the first and the last day" if one.kind == "date" else "public bounds"
        notes = [] if one.known else [f"{PRIVATE} low = …", f"{PRIVATE} high = …    # {what}"]
        if one.known is FLAG:
            notes = [f"{PRIVATE} source: the public codebook that knows nothing but 0 and 1; else other bounds"]
        if one.kind == "date" and one.form != layout.days:
            notes.append(f"{PRIVATE} days written as {one.form}, and a file has one form: {_toml(layout.days)}")
        elif one.kind == "date" and one.form in FORMS[2:4]:
            notes.append(f"{PRIVATE} read as {one.form}: correct days above if day and month change places")
    notes += [f"{PRIVATE} also: {_listed(one.odd)}: correct them, or add them to missing above"] * bool(one.odd)
    return "\n".join(["[[features]]", toml_text(body), *notes])


def _bounds(one: Guess) -> dict[str, Any]:
    if one.known is None:
        return {}
    more = {"transform": one.known.transform} if one.known.transform != "none" else {}
    source = "" if one.known is FLAG else one.known.source
    return {"low": one.known.low, "high": one.known.high, **more, "source": source}


def _is_whole(word: str) -> bool:
    return word.lstrip("-").isdigit()


def _toml(value: str) -> str:
    return toml_text({"x": value}).removeprefix("x = ")


def _listed(words: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(_toml(word) for word in words[:SHOWN])
    return f"{shown} and {len(words) - SHOWN:,} more" if len(words) > SHOWN else shown


def confirmed(path: Path, by: str, day: datetime.date) -> str:
    """The text without the mark and without what tells of records; a SchemaError says all that is still open."""
    check_text("--by", "a name", by)
    data = holding_bytes(path)
    body = toml_table(data, lambda what: SchemaError(f"{path.name} {what}"))
    if DRAFT not in body:
        raise SchemaError(f"{path.name} is no draft: nothing is to be confirmed")
    del body[DRAFT]
    with located(data, path.name):
        _require_complete(body)
    kept = [line for line in data.decode().splitlines() if not line.lstrip().startswith(PRIVATE)]
    text = "\n".join(line for line in kept if not re.match(rf"\s*{DRAFT}\s*=", line))
    if tomllib.loads(text) != body:
        raise SchemaError(
            f"{path.name}: a text over several lines has {PRIVATE} or {DRAFT} in it: write it as one line"
        )
    stated = f"# Confirmed by {by} on {day.isoformat()}: nothing in here is taken from records.\n\n"
    return stated + re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def _require_complete(body: dict[str, Any]) -> None:
    found = Collected()
    holding = found.look("", lambda: holding_from(body))
    for entry in [*_tables(body.get("features")), body.get("target"), *_tables(body.get("targets"))]:
        if isinstance(entry, dict) and not str(entry.get("source", "")).strip():
            name = str(entry.get("name") or (entry.get("names") or ["a column"])[0])
            if _lists_words(entry):
                found.add(name, f"{name}: name the public codebook that lists its words, as source")
            elif "source" in entry:
                found.add(name, f"{name}: name the public codebook that its bounds are from, as source")
    found.finish()
    assert isinstance(holding, Holding)


def _lists_words(entry: dict[str, Any]) -> bool:
    return any(entry.get(what) for what in ("categories", "positive", "negative", "classes"))


def _tables(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []
