"""`parley provision`: the demonstration's federation for containers.

parley provision federation --owner 10001    # a throw-away federation for deploy/compose.yaml
parley provision federation --remove
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import emit_json, progress
from parley.cli.options import Json

Folder = Annotated[Path, typer.Argument(help="Where node folders are made.", metavar="FOLDER")]


def provision(
    folder: Folder,
    owner: Annotated[int | None, typer.Option(help="User and group of the containers; needs root.")] = None,
    run: Annotated[str, typer.Option(help="Name of the study's run.")] = "heart-disease",
    minimum_parties: Annotated[int, typer.Option(min=2, max=4, help="Hospitals that a round needs.")] = 4,
    deadline: Annotated[float, typer.Option(min=1, help="Seconds that a round waits for hospitals.")] = 30.0,
    runs: Annotated[int, typer.Option(min=1, help="How many such runs fit every budget.")] = 4,
    remove: Annotated[bool, typer.Option(help="Take everything away again, keys too.")] = False,
    json_output: Json = False,
) -> None:
    """Make the demonstration's seven nodes for containers: keys, certificates and configuration.

    One person holds every key of such a federation: it is a demonstration and protects nobody. Files that exist stay as
    they are. Next: docker compose, as deploy/compose-demo.sh does.

    Example: parley provision federation --owner 10001
    """
    from parley.demo import provision as demo
    from parley.demo.recipe import STUDY

    if remove:
        demo.remove(folder)
        return
    study = folder / demo.STUDY_FILE
    if study.exists():
        from parley.federation.manifest import read_manifest

        manifest = read_manifest(study)
    else:
        progress("drafting the study: its noise is calibrated, which takes seconds")
        wanted = STUDY.replaced(run=run, minimum_parties=minimum_parties, deadline_seconds=deadline)
        manifest = wanted.manifest()
    demo.provision(folder, manifest, runs, progress, None if owner is None else (owner, owner))
    if json_output:
        emit_json({"folder": str(folder), "run": manifest.run, "digest": manifest.digest.hex()})
    else:
        progress(f"ready: 2 aggregators, 1 coordinator, {len(manifest.parties)} hospitals")
