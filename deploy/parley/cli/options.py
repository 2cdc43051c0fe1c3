"""Options and arguments that several commands share, so that they read alike in every `--help`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar, cast

import typer

from parley.cli.console import CommandError

Said = TypeVar("Said")
HOME, IDENTITY = Path("node"), "identity"
Json = Annotated[bool, typer.Option("--json", help="End standard output with one line of JSON.")]
NodeFolder = Annotated[Path, typer.Argument(help="The node's folder, with node.toml.", metavar="NODE")]
CoordinatorOption = Annotated[Path, typer.Option("--node", help="The coordinator's folder, with node.toml.")]
StudyFile = Annotated[Path, typer.Argument(help="The study, as TOML: docs/study.md.", metavar="STUDY")]
ModelFile = Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(help="File with the key's passphrase, mode 600; without one it is asked for, or read from a pipe."),
]
Reviewer = Annotated[str | None, typer.Option(help="Who signs, as the policy names them.")]
KeyFile = Annotated[Path | None, typer.Option("--key", help="The reviewer's key file.")]
AtNode = Annotated[Path | None, typer.Option("--node", help="The node's folder, with node.toml.", metavar="NODE")]
"""Where the command's own argument is something else than a node."""
OfNode = Annotated[Path | None, typer.Argument(help="The node's folder, with node.toml.", metavar="NODE")]
OldFolder = Annotated[Path | None, typer.Option("--folder", hidden=True, help="NODE/identity, as it was said before.")]
OldNode = Annotated[Path | None, typer.Option("--node", hidden=True, help="NODE, as it was said before.")]
RunName = Annotated[str, typer.Argument(help="The run's name.", metavar="RUN")]


def one_of(now: Said | None, before: Said | None, what: str) -> Said:
    """An argument, or the option that it was before."""
    if (now is None) == (before is None):
        raise CommandError(f"{what} is {'missing' if now is None else 'there twice'}: give it once, as an argument")
    return now if now is not None else cast("Said", before)


def identity_folder(node: Path | None, folder: Path | None) -> Path:
    """Where a node's key and certificates are: in NODE/identity, or where scripts of before say."""
    if node is not None and folder is not None:
        raise CommandError("--folder and NODE are both there: give NODE, the folder with node.toml, alone")
    return node / IDENTITY if node is not None else folder or HOME


class Cover(StrEnum):
    strips = "strips"
    rectangle = "rectangle"


class Precision(StrEnum):
    standard = "standard"
    high = "high"


class Security(StrEnum):
    semi_honest = "semi-honest"
    covert = "covert"
    malicious = "malicious"


class Audit(StrEnum):
    sixteenth = "1/16"
    eighth = "1/8"
    quarter = "1/4"
    half = "1/2"


class Wire(StrEnum):
    grpc = "grpc"
    socket = "socket"
