"""`parley schema`: what an institution's records are, in its own words, and that they are so.

parley schema check NODE       # the records against all of schema.toml, for local eyes; seals them if they fit
parley schema check NODE --data cardiology        # of a node with several data sets, one
parley schema study NODE       # the columns as a study's [schema] takes them: public, for whoever writes manifests
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.console import EXIT_BAD_NEWS, emit_json
from parley.cli.options import Json, NodeFolder
from parley.errors import ParleyError
from parley.federation.toml_text import toml_text
from parley.party.process import party_node, settings_of
from parley.party.record_check import Checked, chosen, seal_data

if TYPE_CHECKING:
    from parley.node.data_sets import DataSet

Name = Annotated[str | None, typer.Option("--data", help="One of node.toml's data sets, where it has several.")]
app = typer.Typer(help="Compare an institution's records with what it says of them.", no_args_is_help=True)


@app.command()
def check(node: NodeFolder, data: Name = None, json_output: Json = False) -> None:
    """Compare the records with the whole of schema.toml, and seal both if they fit; each data set for itself.

    Where node.toml has a query, its rows are taken from the database first, and runs use these until the next check.
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
    }
    if found.taken is not None:
        body["taken_at"] = found.taken.at
    return {"name": data.name} | body if data.name else body


def _show(data: "DataSet", found: Checked) -> None:
    of, fit = f"{data.name}: " if data.name else "", found.fit
    for problem in fit.problems:
        print(f"{of}does not fit: {problem}")
    if fit.fits:
        print(f"{of}sealed: {fit.records:,} records of {fit.units:,} units, {fit.columns:,} columns")
    if found.taken is not None:
        print("  taken from the database now: runs use these rows until the next check")
    for column, count in fit.adjusted.items():
        print(f"  {column}: {count:,} of {fit.records:,} cut to the bounds or left out")


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
