"""`parley init`: a federation's files to begin with, every field explained.

parley init my-federation
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import CommandError, emit_json
from parley.cli.options import Json


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; nothing there is overwritten.")],
    json: Json = False,
) -> None:
    """Write the files of a federation to start from: a study, and node.toml and policy.toml for each role.

    Every field is explained in its file, and DIR/README.md has the steps in order. Nothing that exists is overwritten.

    Example: parley init my-federation. Next: read my-federation/README.md
    """
    written = write_project(folder)
    if json:
        emit_json({"folder": str(folder), "files": [path.relative_to(folder).as_posix() for path in written]})
        return
    for path in written:
        print(path)
    print(f"next: read {folder / 'README.md'}")


def write_project(folder: Path) -> list[Path]:
    """All files, or none if one of them is there already."""
    sources = dict(_templates(files("parley.cli") / "templates", ""))
    taken = [name for name in sources if (folder / name).exists()]
    if taken:
        raise CommandError(f"{folder} has a {taken[0]} already: nothing was written, choose another folder")
    written = []
    try:
        for name, source in sorted(sources.items()):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise CommandError(f"{folder} cannot be written ({error.strerror}): choose another folder") from None
    return written


def _templates(place: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for each in place.iterdir():
        if each.is_dir():
            found += _templates(each, f"{prefix}{each.name}/")
        elif each.name.endswith((".toml", ".md")):
            found.append((prefix + each.name, each))
    return found
