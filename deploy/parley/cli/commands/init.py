"""`parley init`: a study with everybody's steps, or a federation's files with every field explained.

parley init heart --parties hospital-a=300,hospital-b=200 --hosts lead=lead.example.org,north=…,south=… …
parley init trial --parties a=300,b=200 --local
parley init my-federation
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.console import CommandError, emit_json, progress
from parley.cli.options import Json


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; nothing there is overwritten.")],
    parties: Annotated[
        str | None, typer.Option(help="Institutions with records, and how many units each has: a=300,b=200.")
    ] = None,
    hosts: Annotated[
        str, typer.Option(help="Where the servers are reached: lead=HOST,north=HOST,south=HOST; HOST or HOST:PORT.")
    ] = "",
    local: Annotated[
        bool, typer.Option("--local", help="All on this machine, on ports of the kernel's choice: a trial.")
    ] = False,
    port_base: Annotated[
        int | None, typer.Option(min=1024, max=65000, help="With --local: the first of the ports.")
    ] = None,
    organisation: Annotated[
        list[str] | None, typer.Option(metavar="NAME=WHO", help="Who answers for a node in law; may be repeated.")
    ] = None,
    aggregators: Annotated[str, typer.Option(help="The two servers; the first dials the second.")] = "north,south",
    coordinator: Annotated[str, typer.Option(help="Who leads the study.")] = "lead",
    federation: Annotated[str | None, typer.Option(help="Its name; that of DIR, unless given.")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="A schema.toml with the study's columns; else an example's.")
    ] = None,
    epsilon: Annotated[float, typer.Option(min=0.0, help="What a run may cost.")] = 1.0,
    delta: Annotated[float, typer.Option(min=0.0, help="What a run may cost.")] = 1e-5,
    json: Json = False,
) -> None:
    """Write the files to start from: with --parties a study, who takes part, and a README with everybody's steps.

    Without --parties, a project in which every field is explained: a study, node.toml and policy.toml for each role.
    Nothing that exists is overwritten.

    Example: parley init trial --parties a=300,b=200 --local. Next: read trial/README.md, then parley invite trial --all
    """
    if parties is None and (local or hosts or organisation or schema or port_base or federation):
        raise CommandError("say who has records: --parties a=300,b=200; without it the files of an example are written")
    written = (
        write_project(folder)
        if parties is None
        else _study(folder, parties, hosts, local, port_base, organisation or [], aggregators, coordinator, federation,
                    schema, epsilon, delta)
    )  # fmt: skip
    if json:
        emit_json({"folder": str(folder), "files": [path.relative_to(folder).as_posix() for path in written]})
        return
    for path in written:
        print(path)
    print(f"next: read {folder / 'README.md'}")


def _study(
    folder: Path, parties: str, hosts: str, local: bool, port_base: int | None, organisation: list[str],
    aggregators: str, coordinator: str, federation: str | None, schema: Path | None, epsilon: float, delta: float,
) -> list[Path]:  # fmt: skip
    from parley.cli import project
    from parley.federation.names import is_label

    name = federation or folder.absolute().name
    if not is_label(name):
        raise CommandError(f"{name!r} cannot be the federation's name: give one with --federation, of a-z, 0-9 and -")
    if local and hosts:
        raise CommandError("--local and --hosts are both there: a trial is on this machine alone")
    counted, guessed = project.counted(project.pairs(parties, "--parties"))
    entities = dict(each.partition("=")[::2] for each in organisation)
    wanted = project.Wanted(
        folder=folder,
        parties=counted,
        guessed=guessed,
        aggregators=list(project.pairs(aggregators, "--aggregators")),
        coordinator=coordinator,
        hosts=project.pairs(hosts, "--hosts"),
        organisations=entities,
        federation=name,
        epsilon=epsilon,
        delta=delta,
        columns=project.COLUMNS if schema is None else _columns(schema),
        local=local,
        port_base=port_base,
    )
    written = project.write(wanted)
    for each in guessed:
        progress(
            f"{each}: {project.GUESSED_UNITS} units are a guess: give --parties {each}=NUMBER, or change study.toml"
        )
    return written


def _columns(schema: Path) -> dict[str, Any]:
    """All of them, and an intercept."""
    from parley.learning.holding import read_holding

    body = next(read_holding(schema).whole()).as_json()
    return {"intercept": True} | {
        name: value for name, value in body.items() if value is not None and name not in ("bits", "intercept")
    }


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
