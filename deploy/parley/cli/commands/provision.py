"""`parley health` and `parley provision`: what containers need beside the node itself.

parley health /node
parley provision federation --owner 10001    # a throw-away federation for deploy/compose.yaml
parley provision federation --remove
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import emit_json, progress

Folder = Annotated[Path, typer.Argument(help="Where node folders are made.", metavar="FOLDER")]


def health(node: Annotated[Path, typer.Argument(help="The node's folder, with node.toml.", metavar="NODE")]) -> None:
    """Ask every listener of a node by the gRPC health service; a party, when its loop last turned. Exit code 1: ill."""
    from parley.node.health import main

    main(node)


def provision(
    folder: Folder,
    owner: Annotated[int | None, typer.Option(help="User and group of the containers; needs root.")] = None,
    run: Annotated[str, typer.Option(help="Name of the study's run.")] = "heart-disease",
    minimum_parties: Annotated[int, typer.Option(min=2, max=4, help="Hospitals that a round needs.")] = 4,
    deadline: Annotated[float, typer.Option(min=1, help="Seconds that a round waits for hospitals.")] = 30.0,
    runs: Annotated[int, typer.Option(min=1, help="How many such runs fit every budget.")] = 4,
    remove: Annotated[bool, typer.Option(help="Take everything away again, keys too.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="End standard output with one line of JSON.")] = False,
) -> None:
    """Make keys, certificates and configuration of the demonstration's seven nodes, for deploy/compose.yaml.

    One person holds every key of such a federation: a demonstration, no trust boundary. What is there already stays.
    """
    from parley.demo import provision as provisioning
    from parley.demo import recipe as demo_recipe

    if remove:
        provisioning.remove(folder)
        return
    study = folder / provisioning.STUDY_FILE
    if study.exists():
        from parley.federation.manifest import read_manifest

        manifest = read_manifest(study)
    else:
        progress("drafting the study: its noise is calibrated, which takes seconds")
        manifest = demo_recipe.manifest(run=run, minimum_parties=minimum_parties, deadline_seconds=deadline)
    provisioning.provision(folder, manifest, runs, progress, None if owner is None else (owner, owner))
    if json_output:
        emit_json({"folder": str(folder), "run": manifest.run, "digest": manifest.digest.hex()})
    else:
        progress(f"ready: 2 aggregators, 1 coordinator, {len(manifest.parties)} hospitals")
