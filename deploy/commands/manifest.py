"""`parley manifest`: what a run would do and cost, before anybody admits it.

parley manifest check RUN.toml
parley manifest digest RUN.toml --json
"""

from pathlib import Path
from typing import Annotated

import typer
from parley.federation.manifest import read_manifest
from rich.console import Console

from deploy.console import emit_json, progress

app = typer.Typer(help="Check a run's manifest and say what it means.", no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="The manifest, as TOML.", metavar="FILE")]
Json = Annotated[bool, typer.Option("--json", help="End standard output with one line of JSON.")]


@app.command()
def check(file: File, json_output: Json = False) -> None:
    """Verify a manifest and say in plain words what it means: parties, rounds, privacy, noise, precision, range.

    Exit code 2, with the field and what to change, if no role may admit it.
    """
    from parley.federation.meaning import verify

    from deploy.vocabulary import check_vocabulary  # these two take seconds to import and to run

    manifest = read_manifest(file)
    check_vocabulary(manifest)
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
                **meaning.as_json(),
                "sentences": meaning.sentences,
            }
        )
    else:
        Console().print("\n".join(meaning.sentences), highlight=False, markup=False, soft_wrap=True)


@app.command()
def digest(file: File, json_output: Json = False) -> None:
    """The SHA-256 of a manifest's canonical form: what every message of the run carries, and what a person approves."""
    manifest = read_manifest(file)
    if json_output:
        emit_json({"run": manifest.run, "federation": manifest.federation, "digest": manifest.digest.hex()})
    else:
        print(manifest.digest.hex())
