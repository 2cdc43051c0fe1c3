"""`parley study`: what a study would cost, before anybody is asked, and what it can be tried on for nothing.

parley study made-up STUDY.toml --records 1000 -o made-up.csv
parley study sweep STUDY.toml --epsilon 0.5 --epsilon 1
parley study plan STUDY.toml
parley study plan STUDY.toml --records a=5000 --records b=5000 --json
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import CommandError, emit_json, progress
from parley.cli.options import Json, StudyFile

app = typer.Typer(help="What a study would cost, and who could learn what.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """What a study would cost, and who could learn what."""


@app.command()
def plan(
    study: StudyFile,
    records: Annotated[
        list[str] | None,
        typer.Option(help="A party's records, as NAME=COUNT; several times, or one COUNT for a single site."),
    ] = None,
    json_output: Json = False,
) -> None:
    """Compute epsilon, rounds and noise of a study, and what each adversary could learn of one record.

    The figures are those of the manifest that `parley manifest draft` writes. Without --records they are for the
    parties that the study names, or for the number of records in its files.

    Example: parley study plan study.toml --records a=5000 --records b=5000. Next: parley manifest draft study.toml
    """
    from parley.study.document import read

    wanted = read(study)
    progress("planning the rounds and calibrating their noise")
    found = wanted.plan(_counted(records) if records else None)
    if json_output:
        emit_json(found.as_json())
    else:
        print(found)


@app.command("made-up")
def made_up(
    study: StudyFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="The CSV file to write.")],
    records: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many rows.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other rows of the same kind.")] = 0,
) -> None:
    """Write made-up rows that fit the study's columns and can be learned from, to try things on at nobody's cost.

    They follow from the columns alone: no record has a part in them. They say how a run behaves, and nothing of how
    good a model of real records would be.

    Example: parley study made-up study.toml --records 5000 -o made-up.csv
    """
    import csv

    from parley.study.document import read

    wanted = read(study)
    table = wanted.made_up(records, seed)
    try:
        with output.open("x", newline="") as file:  # never over records
            rows = csv.writer(file, delimiter=wanted.layout.delimiter if wanted.layout else ",")
            rows.writerow(table)
            rows.writerows(zip(*table.values(), strict=True))
    except FileExistsError:
        raise CommandError(f"{output} is there already: give another name") from None
    except OSError as error:
        raise CommandError(f"{output} cannot be written: {error.strerror}") from None
    print(f"{records:,} made-up rows in {output}")


@app.command()
def sweep(
    study: StudyFile,
    epsilon: Annotated[list[float] | None, typer.Option(help="To be tried; several times.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="A kind of model to be tried; several times.")] = None,
    algorithm: Annotated[list[str] | None, typer.Option(help="An algorithm to be tried; several times.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Fits of each combination.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the fits.")] = 1,
    public: Annotated[bool, typer.Option(help="Your word that all records are public: nothing is charged.")] = False,
    json_output: Json = False,
) -> None:
    """Simulate a study with every combination of these, and say what having looked at all of it costs.

    Every fit is charged, because every one is shown. Try it on made-up or public records first.

    Example: parley study sweep study.toml --epsilon 0.5 --epsilon 1 --algorithm auto --algorithm dp-gd
    """
    from parley.study.document import read

    wanted = read(study)
    progress("calibrating, then training each combination")
    found = wanted.sweep(
        epsilon=epsilon or (), model=model or (), algorithm=algorithm or (), seeds=seeds, workers=workers, public=public
    )
    if json_output:
        emit_json(found.as_json())
    else:
        print(found)


def _counted(records: list[str]) -> int | dict[str, int]:
    if len(records) == 1 and records[0].isdecimal():
        return int(records[0])
    found: dict[str, int] = {}
    for each in records:
        name, equals, count = each.partition("=")
        if not equals or not count.isdecimal() or name in found:
            raise CommandError(f"--records {each}: give NAME=COUNT, each name once")
        found[name] = int(count)
    return found
