"""`parley schema`: what an institution's records are, in its own words, and that they are so.

parley schema check NODE       # the records against all of schema.toml, for local eyes; seals them if they fit
parley schema study NODE       # the columns as a study's [schema] takes them: public, for whoever writes manifests
"""

import typer

from parley.cli.console import EXIT_BAD_NEWS, emit_json
from parley.cli.options import Json, NodeFolder
from parley.federation.toml_text import toml_text
from parley.party.process import party_node, settings_of
from parley.party.record_check import seal_node

app = typer.Typer(help="Compare an institution's records with what it says of them.", no_args_is_help=True)


@app.command()
def check(node: NodeFolder, json_output: Json = False) -> None:
    """Compare the records with the whole of schema.toml, and seal both if they fit.

    The output tells of records: it is for this machine's operator alone. Without a seal, or after any change of the
    files, the node waits and takes part in no run. Exit code 1 if something does not fit.

    Example: parley schema check hospital-a. Next: parley party run hospital-a
    """
    found = seal_node(node)
    if json_output:
        emit_json(
            {
                "sealed": found.fits,
                "problems": found.problems,
                "records": found.records,
                "units": found.units,
                "columns": found.columns,
                "adjusted": found.adjusted,
            }
        )
    else:
        for problem in found.problems:
            print(f"does not fit: {problem}")
        if found.fits:
            print(f"sealed: {found.records:,} records of {found.units:,} units, {found.columns:,} columns")
        for column, count in found.adjusted.items():
            print(f"  {column}: {count:,} of {found.records:,} cut to the bounds or left out")
    if not found.fits:
        raise SystemExit(EXIT_BAD_NEWS)


@app.command()
def study(node: NodeFolder, json_output: Json = False) -> None:
    """Print the columns of schema.toml for a study's [schema]. Reads no record.

    Next: send them to whoever writes the study, who leaves out what it does not need.

    Example: parley schema study hospital-a
    """
    from parley.learning.holding import read_holding

    holding = read_holding(settings_of(party_node(node)).schema)
    body = next(holding.whole()).as_json()
    body = {name: value for name, value in body.items() if value is not None and name != "bits"}
    if json_output:
        emit_json({"schema": body, "units": holding.units})
    else:
        print(toml_text({"schema": body}))
