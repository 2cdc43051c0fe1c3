"""Options and arguments that several commands share, so that they read alike in every `--help`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
RunName = Annotated[str, typer.Argument(help="The run's name.", metavar="RUN")]


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
