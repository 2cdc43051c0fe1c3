"""`parley export`: a run's model and its card, checked, where they are wanted.

parley export coordinator --run heart-1 -o model.npz
parley export demo/model.npz -o copies/model.npz --json
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from parley.cli.console import CommandError, emit_json
from parley.cli.options import Json
from parley.learning.errors import ModelFileError


def export(
    source: Annotated[Path, typer.Argument(metavar="RUNFOLDER-or-MODEL", help="A model file, or a folder with one.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write; card.json goes beside it.")],
    run: Annotated[str | None, typer.Option(help="Of the folder's models, the one of this run.")] = None,
    json: Json = False,
) -> None:
    """Copy a run's model (NPZ) and its card, checked: parameters, schema, guarantee, sizes, software.

    A coordinator's folder whose model file is lost still has the model in its store.

    Example: parley export lead --run heart-1 -o model.npz
    """
    from parley.learning.model_archive import card_path
    from parley.study.model_file import load

    path = find_model(source, run)
    model = load(path)
    if run is not None and model.card["run"] != run:
        raise ModelFileError(f"{path} is of run {model.card['run']}, not of {run}")
    if output.is_dir():
        output = output / "model.npz"
    if output.suffix != ".npz":
        raise CommandError(f"{output.name} does not end in .npz: NumPy and people know the file by that")
    if output.absolute() != path.absolute():
        model.save(output)
    if json:
        emit_json({"model": str(output), "card": str(card_path(output)), **model.card})
        return
    lines = [
        f"model      {output}",
        f"card       {card_path(output)}",
        f"run        {model.card['run']}, manifest {model.card['manifest_digest']}",
        f"guarantee  {model.card['statement']}",
        "use        from parley import study",
        f'           model = study.load("{output}")',
        '           model.predict("rows.csv")',
    ]
    Console().print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def find_model(source: Path, run: str | None = None) -> Path:
    """The model file that a folder holds: model.npz, models/RUN.npz, RUN/model.npz, or the only one below.

    A coordinator's folder without the file still has the run in its store, and the file is written from there.
    """
    if not source.is_dir():
        return source
    named = ["model.npz"] if run is None else [f"models/{run}.npz", f"{run}/model.npz", f"models/{run}/model.npz"]
    for path in (source / name for name in [*named, "model.npz"]):
        if path.is_file():
            return path
    if (source / "state" / "runs.sqlite").is_file():
        from parley.coordinator.result import (
            write_from_store,  # the coordinator's store knows, whatever became of the file
        )

        return write_from_store(source, run)
    found = sorted(path for path in source.rglob("*.npz") if not path.is_symlink())
    if len(found) == 1:
        return found[0]
    if not found:
        raise ModelFileError(f"{source} holds no model yet: a run writes one when it finishes")
    raise ModelFileError(f"{source} holds {len(found)} models: give --run, or the path of one of them")
