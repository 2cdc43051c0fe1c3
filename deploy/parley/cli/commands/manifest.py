"""`parley manifest`: what a run would do and cost, before anybody admits it.

parley manifest draft STUDY.toml -o RUN.toml    # docs/study.md
parley manifest check RUN.toml
parley manifest digest RUN.toml --json
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from parley.cli.console import emit_json, fail, progress
from parley.cli.options import Json
from parley.federation.manifest import read_manifest

app = typer.Typer(help="Draft a run's manifest, check it, and read what it means.", no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="The manifest, as TOML.", metavar="FILE")]


@app.command()
def draft(
    study: Annotated[Path, typer.Argument(help="What people decide, as TOML: docs/study.md.", metavar="STUDY")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the manifest; never over a file.")],
    json_output: Json = False,
) -> None:
    """Write a complete manifest from a study: its rounds, and the least noise that keeps its promise.

    Example: parley manifest draft study.toml -o run.toml. Next: parley manifest check run.toml
    """
    from parley.federation.toml_text import toml_text
    from parley.study.document import read  # seconds to import and to run

    if output.exists():
        fail(f"{output} exists: a manifest that somebody may have approved is not overwritten, choose another name")
    progress("planning the rounds and calibrating their noise")
    manifest = read(study).manifest()
    head = f"# Written by `parley manifest draft {study.name}`; read it with `parley manifest check {output.name}`.\n\n"
    try:
        output.write_text(head + toml_text(manifest.as_json()) + "\n")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}")
    if read_manifest(output).digest != manifest.digest:
        fail(f"{output} does not read back as the manifest: this is a defect, report it")
    if json_output:
        emit_json({"run": manifest.run, "manifest": str(output), "digest": manifest.digest.hex()})
    else:
        print(f"{output}: run {manifest.run}, {manifest.releases:,} rounds, manifest {manifest.digest.hex()}")
        noise = f'cover = "{manifest.noise.cover}", precision = "{manifest.noise.precision}"'
        print(f"both aggregators have to offer this noise, in [noise] of their node.toml: {noise}")


@app.command()
def check(file: File, json_output: Json = False) -> None:
    """Verify a manifest and say in plain words what it means: parties, rounds, privacy, noise, range.

    Exit code 2, with the field and what to change, if no role may admit it.

    Example: parley manifest check run.toml
    """
    from parley.algorithms.registry import named_by  # these two take seconds to import and to run
    from parley.federation.meaning import verify

    manifest = read_manifest(file)
    named_by(manifest)
    progress("computing what the run costs, and the law of its noise")
    meaning = verify(manifest)
    if json_output:
        emit_json(
            {
                "run": manifest.run,
                "federation": manifest.federation,
                "digest": manifest.digest.hex(),
                "parties": len(manifest.parties),
                "minimum_parties": manifest.minimum_parties,
                "rounds": manifest.releases,
                "dimension": manifest.model.dimension,
                "accountant": manifest.guarantee.accountant,
                "epsilon_claimed": manifest.guarantee.epsilon,
                "unit": manifest.mechanism.unit.name,
                "relation": manifest.mechanism.relation.value,
                "noise_multiplier": manifest.mechanism.noise_multiplier,
                "precision": manifest.noise.precision,
                "security": manifest.noise.parts.security,
                "own": manifest.noise.parts.own,
                "audit": manifest.noise.parts.audit,
                **meaning.as_json(),
                "sentences": meaning.sentences,
            }
        )
    else:
        Console().print("\n".join(meaning.sentences), highlight=False, markup=False, soft_wrap=True)


@app.command()
def digest(file: File, json_output: Json = False) -> None:
    """Print a manifest's digest, which a person approves and every message of the run carries.

    It is the SHA-256 of the manifest's canonical form: comments and spaces do not change it.

    Example: parley manifest digest run.toml
    """
    manifest = read_manifest(file)
    if json_output:
        emit_json({"run": manifest.run, "federation": manifest.federation, "digest": manifest.digest.hex()})
    else:
        print(manifest.digest.hex())
