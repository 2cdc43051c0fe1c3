"""`parley schema`: what an institution's records are, in its own words, and that they are so.

parley schema draft FILE       # a first schema.toml from a file; private until a person has confirmed it
parley schema diff SCHEMA FILE # columns and words that are in one of them only, for local eyes
parley schema confirm SCHEMA   # a person's word that all of it is public: takes a draft's mark off
parley schema check NODE       # the records against all of schema.toml, for local eyes; seals them if they fit
parley schema check NODE --data cardiology        # of a node with several data sets, one
parley schema study NODE       # the columns as a study's [schema] takes them: public, for whoever writes manifests
"""

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.console import EXIT_BAD_NEWS, CommandError, emit_json, progress
from parley.cli.options import Json, NodeFolder
from parley.errors import ParleyError
from parley.federation.toml_text import toml_text
from parley.learning.spreads import warnings_of
from parley.party.process import party_node, settings_of
from parley.party.record_check import Checked, chosen, seal_data

if TYPE_CHECKING:
    from parley.node.data_sets import DataSet

Name = Annotated[str | None, typer.Option("--data", help="One of node.toml's data sets, where it has several.")]
SchemaFile = Annotated[Path, typer.Argument(help="schema.toml, or a draft of it.", metavar="SCHEMA")]
Table = Annotated[Path, typer.Argument(help="A table with names: CSV of any form, or Parquet.", metavar="FILE")]
MOST_WORDS = 10
"""Of one column on the screen; --json has all."""
app = typer.Typer(help="Say what an institution's records are, and compare them with it.", no_args_is_help=True)


@app.command()
def draft(
    file: Table,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write it.")] = Path("schema.toml"),
    target: Annotated[str | None, typer.Option(help="The column that is predicted.")] = None,
    json_output: Json = False,
) -> None:
    """Write a first schema.toml from your own file. It is private until you have confirmed it.

    Kinds, categories and words for empty cells are taken from the file; bounds are left open, but where a column's name
    tells public ones (age, blood pressure, percentages, counts). No reader of a schema takes a draft.

    Example: parley schema draft records.csv --target sick. Next: edit schema.toml, then parley schema diff
    schema.toml records.csv
    """
    from parley.learning.draft import draft as draft_of
    from parley.privacy.durable import replace_durably

    if output.exists():
        raise CommandError(f"{output} is there already: give another name with -o, or move it away")
    text = draft_of(file, target)
    replace_durably(output.absolute(), text)
    if json_output:
        emit_json({"draft": str(output), "columns": text.count("[[features]]")})
    else:
        print(f"{output}: a draft. It holds words from your records: keep it here.")
        print("Give the bounds that are open, name the codebook of each column of categories, and run")
        print(f"  parley schema diff {output} {file}")
        print(f'  parley schema confirm {output} --by "your name"')


@app.command()
def confirm(
    schema: SchemaFile,
    by: Annotated[str, typer.Option(help="Who answers for it that nothing in it is taken from records.")],
    json_output: Json = False,
) -> None:
    """Take the mark off a draft: a person has given every bound, and named a public codebook for every category.

    All that is still open is said at once. Lines that begin with #~, which tell of records, are removed.

    Example: parley schema confirm schema.toml --by "Dr. Ada Osei". Next: name it as schema in a study's [data], or at
    a node: parley schema check NODE
    """
    from parley.learning.draft import confirmed
    from parley.privacy.durable import replace_durably

    text = confirmed(schema, by, datetime.datetime.now(datetime.UTC).date())
    replace_durably(schema.absolute(), text)
    if json_output:
        emit_json({"confirmed": str(schema), "by": by})
    else:
        print(f"{schema}: confirmed by {by}. It is public from now on.")
        print(f'  a study takes it as [data] schema = "{schema}", Python as study.Study("{schema}", …)')


@app.command()
def diff(schema: SchemaFile, file: Table, json_output: Json = False) -> None:
    """Compare a schema with a file: columns missing or unused, words in no list, bounds that do not suit.

    The output tells of records: it is for this machine's operator alone. Exit code 1 if the file does not fit,
    or something in the schema is still open.

    Example: parley schema diff schema.toml records.csv. Next: parley schema confirm schema.toml --by "your name"
    """
    from parley.learning.difference import difference

    found = difference(schema, file)
    if json_output:
        names = ("open", "absent", "unused", "unlisted", "problems", "warnings")
        emit_json({"fits": found.fits, **{name: getattr(found, name) for name in names}})
    else:
        progress("This tells of records: it is for you alone.")
        for text in found.open:
            print(f"open: {text}")
        for name in found.absent:
            print(f"not in {file.name}: {name}")
        for text in found.problems:
            print(f"does not fit: {text}")
        for name, words in found.unlisted.items():
            print(f"not in the list of {name}: {_words(words)}")
        if found.unused:
            print(f"not in {schema.name}: {', '.join(found.unused)}")
        _warn(found.warnings)
        if found.fits or found.complete:
            print(f"{file.name} fits {schema.name}" + (", which waits to be confirmed" if found.complete else ""))
        else:
            print(f"{file.name} does not fit {schema.name} yet")
    if not found.fits:
        raise SystemExit(EXIT_BAD_NEWS)


def _words(words: dict[str, int]) -> str:
    shown = ", ".join(f"{word!r} ({count:,} rows)" for word, count in list(words.items())[:MOST_WORDS])
    return f"{shown} and {len(words) - MOST_WORDS:,} more" if len(words) > MOST_WORDS else shown


def _warn(warnings: list[str], of: str = "") -> None:
    for text in warnings:
        print(f"{of}WARNING: {text}")


@app.command()
def check(node: NodeFolder, data: Name = None, json_output: Json = False) -> None:
    """Compare the records with the whole of schema.toml, and seal both if they fit; each data set for itself.

    Where node.toml has a query, its rows are taken from the database first, and runs use these until the next check;
    while a run on them is under way it is not asked.
    The output tells of records: it is for this machine's operator alone. Without a seal, or after any change of the
    files, the node waits and takes part in no run. Exit code 1 if something does not fit.

    Example: parley schema check hospital-a. Next: parley party run hospital-a
    """
    settings = settings_of(party_node(node))
    sets = settings.data if data is None else (chosen(settings, data),)
    bodies, sealed = [], True
    for each in sets:
        try:
            found = seal_data(settings, node, each)
        except ParleyError as error:
            if len(sets) == 1:
                raise
            bodies.append({"name": each.name, "sealed": False, "problems": [str(error)]})
            if not json_output:
                print(f"{each.name}: does not fit: {error}")
        else:
            bodies.append(_body(each, found))
            if not json_output:
                _show(each, found)
        sealed = sealed and bool(bodies[-1]["sealed"])
    if json_output:
        emit_json(bodies[0] if len(settings.data) == 1 else {"sealed": sealed, "data": bodies})
    if not sealed:
        raise SystemExit(EXIT_BAD_NEWS)


def _body(data: "DataSet", found: Checked) -> dict[str, Any]:
    fit = found.fit
    body: dict[str, Any] = {
        "sealed": fit.fits,
        "problems": fit.problems,
        "records": fit.records,
        "units": fit.units,
        "columns": fit.columns,
        "adjusted": fit.adjusted,
        "warnings": warnings_of(fit.spreads),
    }
    if found.taken is not None:
        body |= {"taken_at": found.taken.at, "under_way": list(found.under_way)}
    return {"name": data.name} | body if data.name else body


def _show(data: "DataSet", found: Checked) -> None:
    of, fit = f"{data.name}: " if data.name else "", found.fit
    for problem in fit.problems:
        print(f"{of}does not fit: {problem}")
    if fit.fits:
        print(f"{of}sealed: {fit.records:,} records of {fit.units:,} units, {fit.columns:,} columns")
    if found.under_way:
        print(f"  the database was not asked: {', '.join(found.under_way)} goes on with the rows that are here")
    elif found.taken is not None:
        print("  taken from the database now: runs use these rows until the next check")
    for column, count in fit.adjusted.items():
        print(f"  {column}: {count:,} of {fit.records:,} cut to the bounds or left out")
    _warn(warnings_of(fit.spreads), of)


@app.command()
def study(node: NodeFolder, data: Name = None, json_output: Json = False) -> None:
    """Print the columns of schema.toml for a study's [schema]. Reads no record.

    Next: send them to whoever writes the study, who leaves out what it does not need.

    Example: parley schema study hospital-a
    """
    from parley.learning.holding import read_holding

    holding = read_holding(chosen(settings_of(party_node(node)), data or "").schema)
    body = next(holding.whole()).as_json()
    body = {name: value for name, value in body.items() if value is not None and name != "bits"}
    if json_output:
        emit_json({"schema": body, "units": holding.units})
    else:
        print(toml_text({"schema": body}))
