"""`parley predict`: what a model says of the rows of a file.

parley predict model.npz new-patients.csv -o answers.csv --keep patient
parley predict model.npz new-patients.parquet -o -
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import CommandError, progress
from parley.cli.options import ModelFile


def predict(
    model: ModelFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rows with the model's columns; others are left alone.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Where to write: .csv, .parquet, or - for the screen.")],
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column of FILE to copy, such as an id; again for more."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="A PyTorch module whose code may run here; again for more."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> None:
    """Write the predicted label and its probability, or the predicted number, of every row.

    FILE is read by its name: .csv with a header, .parquet, .npz, else LIBSVM; .gz, .bz2 and .xz too. Values beyond a
    column's public bounds are cut to them, as in training, and counted on standard error. A model that is somebody's
    module is asked only with --allow torch:package.module:function, which runs that package's code here.

    Example: parley predict model.npz new-patients.csv -o answers.csv --keep patient
    """
    from parley.study.model_file import load
    from parley.study.predictions import SCREEN, check_output, predicted, write

    if output != SCREEN:
        check_output(Path(output), force)
        if any(Path(output).resolve() == each.resolve() for each in (model, file)):
            raise CommandError(f"{output} is what is read: give another name, --force does not replace it")
    found = predicted(load(model, allow=allow or ()), file, keep or [])
    for line in found.remarks:
        progress(line)
    write(found, output, force)
    if output != SCREEN:
        progress(f"{output}: {found.count:,} rows")
