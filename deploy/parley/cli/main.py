"""The command `parley`.

    parley --help
    parley bench noise --dimension 123 --json

Each command, or group of commands, is a module in `parley.cli.commands`; this one puts them in the order of use and
turns errors that a user can mend into one line and a documented exit code (see `parley.node.entry`).
"""

import os
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from parley.cli.commands import (
    aggregator,
    audit,
    bench,
    ca,
    coordinator,
    dashboard,
    demo,
    doctor,
    export,
    health,
    init,
    ledger,
    manifest,
    node,
    noise,
    party,
    pin,
    predict,
    privacy,
    provision,
    reproduce,
    resume,
    run,
    schema,
    simulate,
    status,
    stop,
    study,
    watch,
)
from parley.node.entry import enter

COMMANDS: dict[str, dict[str, typer.Typer | Callable[..., Any]]] = {
    "Start": {"demo": demo.demo, "init": init.init},
    "Study: plan a run, follow it, take its model": {
        "simulate": simulate.simulate,
        "study": study.app,
        "manifest": manifest.app,
        "run": run.run,
        "watch": watch.watch,
        "status": status.status,
        "stop": stop.stop,
        "resume": resume.resume,
        "export": export.export,
        "predict": predict.predict,
    },
    "Node: set up an institution's machine, and run it": {
        "ca": ca.app,
        "node": node.app,
        "pin": pin.app,
        "schema": schema.app,
        "party": party.app,
        "aggregator": aggregator.app,
        "coordinator": coordinator.app,
        "dashboard": dashboard.dashboard,
        "health": health.health,
        "provision": provision.provision,
    },
    "Inspect: what is wrong, what was spent, what was recorded": {
        "doctor": doctor.doctor,
        "ledger": ledger.app,
        "privacy": privacy.app,
        "audit": audit.app,
    },
    "Research: measure, and reproduce the papers": {
        "bench": bench.app,
        "reproduce": reproduce.app,
        "noise": noise.app,
    },
}
"""By panel, in the order of use, which is the order of `parley --help`."""


class InOrderOfUse(TyperGroup):
    """Typer lists single commands before groups; this one lists both as `COMMANDS` has them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for commands in COMMANDS.values() for name in commands]


app = typer.Typer(
    name="parley",
    cls=InOrderOfUse,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    epilog="To begin: parley demo, and then parley init my-federation. Every command has --help, with an example.",
)
for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(command)


def _version(wanted: bool) -> None:
    if wanted:
        from parley.node.software import software_version, source_digest

        print(f"parley {software_version()}, source {source_digest()[:16]}")
        raise typer.Exit


@app.callback()
def parley(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train one model on the records of many institutions, with noise that nobody knows."""


def main() -> None:
    """Run the command line; expected errors become one line on standard error."""
    os.environ["PYTHONSAFEPATH"] = "1"  # children of multiprocessing take no -P: never the folder where a person stands
    enter(app)


if __name__ == "__main__":
    main()
