"""The command `parley`.

    parley --help
    parley bench noise --dimension 123 --json

Each command, or group of commands, is a module in `parley.cli.commands`; this one puts them in the order of use and
turns errors that a user can mend into one line and a documented exit code (see `parley.node.entry`).
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from parley.node.entry import enter

if TYPE_CHECKING:
    app: typer.Typer

COMMANDS = {
    "Start": ("demo", "init", "invite", "join", "accept"),
    "Study: plan a run, follow it, take its model": (
        "simulate", "study", "model", "manifest", "run", "watch", "status", "stop", "resume", "export", "predict",
    ),
    "Node: set up an institution's machine, and run it": (
        "ca", "node", "pin", "schema", "party", "reviewer", "aggregator", "coordinator", "dashboard", "page", "health",
        "backup", "restore", "upgrade", "provision",
    ),
    "Inspect: what is wrong, what was spent, what was recorded": (
        "doctor", "report", "ledger", "privacy", "audit", "evidence",
    ),
    "Research: measure, and reproduce the papers": ("bench", "reproduce", "noise"),
}  # fmt: skip
"""By panel, in the order of use, which is the order of `parley --help`. Each is a module of its name."""
NAMES = tuple(name for names in COMMANDS.values() for name in names)


class InOrderOfUse(TyperGroup):
    """Typer lists single commands before groups; this one lists both as `COMMANDS` has them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in NAMES if name in self.commands]


def _version(wanted: bool) -> None:
    if wanted:
        from parley.node.software import software_version, source_digest

        print(f"parley {software_version()}, source {source_digest()[:16]}")
        raise typer.Exit


def parley(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train one model on the records of many institutions, with noise that nobody knows."""


def command_of(name: str) -> typer.Typer | Callable[..., Any]:
    """Its group, or the function that it is."""
    module = importlib.import_module(f"parley.cli.commands.{name}")
    found: typer.Typer | Callable[..., Any] = getattr(module, "app", None) or getattr(module, name)
    return found


def built(names: Iterable[str]) -> typer.Typer:
    """The command line with these."""
    made = typer.Typer(
        name="parley",
        cls=InOrderOfUse,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        epilog="To begin: parley demo, and then parley init my-federation. Every command has --help, with an example.",
    )
    made.callback()(parley)
    panels = {name: panel for panel, listed in COMMANDS.items() for name in listed}
    for name in names:
        command = command_of(name)
        if isinstance(command, typer.Typer):
            made.add_typer(command, name=name, rich_help_panel=panels[name])
        else:
            made.command(name, rich_help_panel=panels[name])(command)
    return made


@cache
def _whole() -> typer.Typer:
    return built(NAMES)


def __getattr__(name: str) -> typer.Typer:
    """`app`, with every command: made when it is asked for."""
    if name != "app":
        raise AttributeError(name)
    return _whole()


def main() -> None:
    """Run the command line; expected errors become one line on standard error.

    Of a command that is named first, only its own module is imported: all of them take half a second.
    """
    os.environ["PYTHONSAFEPATH"] = "1"  # children of multiprocessing take no -P: never the folder where a person stands
    if sys.argv[1:] == ["version"]:  # as many another program is asked
        sys.argv[1] = "--version"
    first = sys.argv[1:2]
    enter(built(first) if first and first[0] in NAMES else _whole())


if __name__ == "__main__":
    main()
