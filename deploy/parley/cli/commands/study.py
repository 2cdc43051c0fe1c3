"""`parley study`: what a study would cost, before anybody is asked.

parley study plan STUDY.toml
parley study plan STUDY.toml --records a=5000 --records b=5000 --json
"""

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
