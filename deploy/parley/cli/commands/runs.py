"""`parley run, watch, status, stop, resume`: what a researcher does with runs, on the coordinator's machine.

parley run RUN.toml --node lead
parley watch heart-1 --node lead
parley stop heart-1 --node lead
parley resume heart-1 --node lead
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.console import EXIT_BAD_NEWS, emit_json, progress

Folder = Annotated[Path, typer.Option("--node", help="The coordinator's folder, with node.toml.")]
Json = Annotated[bool, typer.Option("--json", help="End standard output with one line of JSON.")]
Name = Annotated[str, typer.Argument(help="The run's name.", metavar="RUN")]


def run(
    manifest: Annotated[Path, typer.Argument(help="The run's manifest, as TOML: see `parley init`.", metavar="FILE")],
    node: Folder,
    detach: Annotated[bool, typer.Option(help="Submit it and come back at once; `parley watch` follows it.")] = False,
    json_output: Json = False,
) -> None:
    """Submit a run to the coordinator on this machine, and follow it to its end.

    Interrupting this command does not stop the run. Exit code 1 if the run ended in anything but a model.
    """
    from parley.algorithms.registry import named_by
    from parley.coordinator.operator_client import Coordinator
    from parley.federation.manifest import read_manifest

    document = read_manifest(manifest)
    named_by(document)
    coordinator = Coordinator(node)
    digest = coordinator.submit(document)
    progress(f"run {document.run} submitted, manifest {digest.hex()}")
    if detach:
        body: dict[str, Any] = {"run": document.run, "digest": digest.hex()}
        if json_output:
            emit_json(body)
        return
    _follow(coordinator, digest, json_output)


def watch(run: Name, node: Folder, json_output: Json = False) -> None:
    """Follow a run until it rests: rounds, who is present, what is missing, what the model is worth."""
    from parley.coordinator.operator_client import Coordinator

    coordinator = Coordinator(node)
    _follow(coordinator, coordinator.store.find(run).digest, json_output)


def status(node: Folder, json_output: Json = False) -> None:
    """Every run on this coordinator, and where it stands."""
    from parley.coordinator.operator_client import show_status

    body = show_status(node, quiet=json_output)
    if json_output:
        emit_json(body)


def stop(
    run: Name,
    node: Folder,
    final: Annotated[bool, typer.Option(help="For good: both aggregators sign how many sums they opened.")] = False,
    json_output: Json = False,
) -> None:
    """Let a run rest; `parley resume` goes on. With --final it ends, and parties may settle their budgets."""
    from parley.coordinator.operator_client import Coordinator

    state = Coordinator(node).stop(run, final)
    emit_json({"run": run, "state": state}) if json_output else print(f"run {run} is {state}")


def resume(run: Name, node: Folder, json_output: Json = False) -> None:
    """Go on with a run that stalled or was stopped, from the round that waits."""
    from parley.coordinator.operator_client import Coordinator

    state = Coordinator(node).resume(run)
    emit_json({"run": run, "state": state}) if json_output else print(f"run {run} is {state}")


def _follow(coordinator: Any, digest: bytes, json_output: bool) -> None:
    from parley.cli.watch_screen import follow
    from parley.coordinator.operator_client import summary
    from parley.coordinator.store import State

    row = follow(coordinator, digest)
    if json_output:
        emit_json(summary(row))
    if row.state is not State.finished:
        raise SystemExit(EXIT_BAD_NEWS)
