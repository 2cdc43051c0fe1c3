"""`parley export`: a run's model and its card, checked, where they are wanted and as what is wanted.

parley export coordinator --run heart-1 -o model.npz --card card.html
parley export demo/model.npz -o model.onnx
parley export model.npz --torch model.pt --allow torch:hospital_models.nets:build
parley export demo/model.npz --plot quality.svg --test public.csv
"""

from io import BytesIO
from json import dumps
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from parley.cli.console import CommandError, emit_json
from parley.cli.options import Json
from parley.learning.errors import ModelFileError
from parley.learning.model_archive import card_path

if TYPE_CHECKING:
    from parley.study.model_file import LoadedModel


def export(
    source: Annotated[Path, typer.Argument(metavar="RUNFOLDER-or-MODEL", help="A model file, or a folder with one.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A model file (.npz, with card.json), .onnx or .json.")
    ] = None,
    card: Annotated[Path | None, typer.Option(help="The model card for people: .html or .md.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A picture of how good it is on --test: .png or .svg.")] = None,
    test: Annotated[Path | None, typer.Option(help="PUBLIC rows with their labels, for --plot.")] = None,
    torch: Annotated[
        Path | None, typer.Option(metavar="FILE.pt", help="A PyTorch module's state_dict, of plain tensors.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Of the folder's models, the one of this run.")] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="A module whose code may run here, for --plot, --torch."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model file that is there already.")] = False,
    json: Json = False,
) -> None:
    """Write a run's model, checked: its file and card, the card as a page, a picture, or the model for other programs.

    ONNX and JSON files need no parley: docs/model-file.md; --torch is for a module of your own: docs/neural.md. For
    scikit-learn, say study.load(FILE).to_sklearn() in Python. A coordinator's folder whose model file is lost still has
    the model in its store.

    Example: parley export lead --run heart-1 -o model.npz --card card.html
    """
    from parley.study.model_file import load

    if output is None and card is None and plot is None and torch is None:
        raise CommandError("nothing to write: give -o, --card, --plot or --torch")
    if (plot is None) != (test is None):
        raise CommandError("--plot and --test go together: a picture is of public rows with their labels")
    named = (output, (".npz", ".onnx", ".json")), (card, (".html", ".md")), (plot, (".png", ".svg")), (torch, (".pt",))
    for wanted, endings in named:
        if wanted is not None and not wanted.is_dir() and wanted.suffix not in endings:
            raise CommandError(f"{wanted.name} ends in none of {', '.join(endings)}: name the file by what it shall be")
    path = find_model(source, run)
    model = load(path, allow=allow or ())
    if run is not None and model.card["run"] != run:
        raise ModelFileError(f"{path} is of run {model.card['run']}, not of {run}")
    written = {}
    if output:
        written["model"] = _write_model(model, path, output / "model.npz" if output.is_dir() else output, force)
    if torch:
        written["torch"] = _write_torch(model, torch / "model.pt" if torch.is_dir() else torch, force)
    if card:
        written["page"] = _write_card(model, card)
    if plot:
        from parley.study.plots import of_model

        written["plot"] = of_model(model, test).save(plot)
    _say(model, written, json)


def _write_model(model: "LoadedModel", path: Path, output: Path, force: bool) -> Path:
    """By the file's ending; never over a file unless told to, but a model onto itself changes nothing."""
    if output.name in ("card.json", card_path(path).name):
        raise CommandError(f"{output.name} is the name of a card: give the model another")
    if output.absolute() == path.absolute():
        return output
    require_free(output, force)
    if output.suffix == ".npz":
        model.save(output)
    elif output.suffix == ".onnx":
        write_file(output, model.to_onnx())
    elif output.suffix == ".json":
        write_file(output, dumps(model.to_json(), allow_nan=False, ensure_ascii=False).encode() + b"\n")
    return output


def _write_torch(model: "LoadedModel", output: Path, force: bool) -> Path:
    """The state_dict, and the model's card beside it: what it promises goes with the numbers."""
    require_free(output, force)
    values = model.to_torch()

    import torch

    content = BytesIO()
    torch.save(values, content)
    write_file(output, content.getvalue())
    write_file(card_path(output), dumps(model.card, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    return output


def _write_card(model: "LoadedModel", output: Path) -> Path:
    page = model.card_page()
    write_file(output, (page.html() if output.suffix == ".html" else page.markdown()).encode())
    return output


def require_free(path: Path, force: bool) -> None:
    """Of a model that is to be written."""
    if path.exists() and not force:
        raise CommandError(f"{path} is there already: give another name, or --force")


def write_file(path: Path, content: bytes) -> None:
    """In one step: a reader finds the whole of it, or what was there."""
    temporary = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def _say(model: "LoadedModel", written: dict[str, Path], json: bool) -> None:
    saved = written.get("model")
    if saved and saved.suffix == ".npz":
        written["card"] = card_path(saved)
    if json:
        emit_json({**{name: str(path) for name, path in written.items()}, **model.card})
        return
    lines = [f"{name:<9}  {path}" for name, path in written.items()]
    manifest = model.card.get("manifest_digest")
    lines.append(f"run        {model.card['run']}" + (f", manifest {manifest}" if manifest else ""))
    lines.append(fill(f"guarantee  {model.card['statement']}", 80, subsequent_indent=" " * 11))
    if saved and saved.suffix == ".npz":
        lines += [
            "use        from parley import study",
            f'           model = study.load("{saved}")',
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
