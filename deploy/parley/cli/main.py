"""The command `parley`.

    parley --help
    parley bench noise --dimension 123 --json

Each group of commands is a module in `parley.cli.commands`; this one mounts them and turns errors that a user can mend
into one line and a documented exit code (see `parley.node.entry`).
"""

import os

import typer

from parley.cli.commands import (
    aggregator,
    audit,
    bench,
    ca,
    containers,
    coordinator,
    dashboard,
    demo,
    doctor,
    init,
    ledger,
    manifest,
    node,
    noise,
    party,
    pin,
    privacy,
    reproduce,
    runs,
    schema,
    simulate,
)
from parley.cli.commands.export import export
from parley.node.entry import enter

app = typer.Typer(
    name="parley",
    help="Train one model over many institutions' records, with noise that nobody knows.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(demo.demo)
app.add_typer(noise.app, name="noise")
app.add_typer(bench.app, name="bench")
app.add_typer(privacy.app, name="privacy")
app.add_typer(ledger.app, name="ledger")
app.add_typer(aggregator.app, name="aggregator")
app.add_typer(audit.app, name="audit")
app.add_typer(ca.app, name="ca")
app.add_typer(node.app, name="node")
app.add_typer(pin.app, name="pin")
app.add_typer(manifest.app, name="manifest")
app.add_typer(coordinator.app, name="coordinator")
app.command()(dashboard.dashboard)
for command in (runs.run, runs.watch, runs.status, runs.stop, runs.resume, containers.health, containers.provision):
    app.command()(command)
app.add_typer(party.app, name="party")
app.add_typer(schema.app, name="schema")
app.add_typer(reproduce.app, name="reproduce")
app.command("simulate")(simulate.simulate)
app.command("export")(export)
app.command("doctor")(doctor.doctor)
app.command("init")(init.init)


def main() -> None:
    """Run the command line; expected errors become one line on standard error."""
    os.environ["PYTHONSAFEPATH"] = "1"  # children of multiprocessing take no -P: never the folder where a person stands
    enter(app)


if __name__ == "__main__":
    main()
