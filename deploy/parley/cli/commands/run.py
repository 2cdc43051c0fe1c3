"""`parley run`: submit a run, on the coordinator's machine.

parley run RUN.toml --node lead
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.console import emit_json, progress
from parley.cli.options import CoordinatorOption, Json


def run(
    manifest: Annotated[
        Path, typer.Argument(help="The run's manifest, as TOML: `parley manifest draft` writes one.", metavar="FILE")
    ],
    node: CoordinatorOption,
    start: Annotated[
        Path | None,
        typer.Option(help="The public model file that the manifest starts from.", metavar="MODEL.npz"),
    ] = None,
    detach: Annotated[bool, typer.Option(help="Submit it and return at once; `parley watch` follows it.")] = False,
    json_output: Json = False,
) -> None:
    """Submit a run to the coordinator on this machine, and follow it to its end.

    Interrupting this command does not stop the run: `parley watch` follows it again, `parley stop` pauses it. Exit
    code 1 if the run ended in anything but a model.

    Example: parley run RUN.toml --node lead
    """
    from parley.algorithms.registry import named_by
    from parley.cli.watch_screen import follow_to_its_end
    from parley.coordinator.operator_client import Coordinator
    from parley.coordinator.starts import keep_start, require_steering
    from parley.federation.manifest import read_manifest

    document = read_manifest(manifest)
    named_by(document)
    coordinator = Coordinator(node)
    held = coordinator.held(document)
    if start is not None:
        keep_start(document, start, coordinator.node.state)
    require_steering(document, coordinator.node.evaluation, coordinator.node.state)
    digest = coordinator.submit(document)
    before = "" if held is None else f" again (it was {held.state})"
    progress(f"run {document.run} submitted{before}, manifest {digest.hex()}")
    if detach:
        body: dict[str, Any] = {"run": document.run, "digest": digest.hex()}
        if json_output:
            emit_json(body)
        return
    follow_to_its_end(coordinator, digest, json_output)
