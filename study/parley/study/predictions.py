"""What a model says of the rows of a file, beside the columns that are to be kept: `parley predict`."""

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.learning.readers import Table
from parley.study.errors import StudyError
from parley.study.model_file import LoadedModel, given

SCREEN = "-"


@dataclass(frozen=True)
class Predictions:
    """Columns for a file, and what its reader has to know."""

    columns: dict[str, list[Any]]
    count: int
    remarks: tuple[str, ...]


def predicted(model: LoadedModel, file: Path, keep: Sequence[str] = ()) -> Predictions:
    """Kept columns, then `prediction`, then `probability` of the positive label or `probability[LABEL]` of each."""
    data = given(file, model.schema)
    kept = _kept(data, file, keep)
    adjusted: dict[str, int] = {}
    scores = model.outputs(model.rows_of(data, adjusted))
    answers = {"prediction": model.decided(scores).tolist(), **_probabilities(model, scores)}
    if clash := [name for name in kept if name in answers]:
        raise StudyError(f"{clash[0]} is what an answer is called: rename that column before it is kept")
    return Predictions({**kept, **answers}, len(scores), _remarks(adjusted))


def _kept(data: Any, file: Path, keep: Sequence[str]) -> dict[str, list[Any]]:
    if keep and not isinstance(data, Table):
        raise StudyError(f"{file.name} has no columns by name: --keep is for CSV and Parquet files")
    for name in keep:
        if name not in data.columns:
            raise StudyError(f"{file.name} has no column {name!r} to keep: it has {', '.join(list(data.columns)[:20])}")
    return {name: list(data.columns[name]) for name in keep}


def _probabilities(model: LoadedModel, scores: Any) -> dict[str, list[float]]:
    kind = model.schema.target.kind
    if kind == "number":
        return {}
    chances = model.chances(scores)
    if kind == "binary":
        return {"probability": chances[:, 1].tolist()}
    return {f"probability[{label}]": chances[:, index].tolist() for index, label in enumerate(model.classes_)}


def _remarks(adjusted: dict[str, int]) -> tuple[str, ...]:
    if not adjusted:
        return ()
    each = ", ".join(f"{name} {count:,}" for name, count in adjusted.items())
    return (f"{sum(adjusted.values()):,} values were cut to the public bounds, or are no listed word: {each}",)


def write(found: Predictions, output: str, force: bool = False) -> None:
    """As CSV or Parquet by the ending, or as CSV to the screen; never over a file unless told to."""
    if output == SCREEN:
        sys.stdout.write(_csv(found))
        sys.stdout.flush()
        return
    path = Path(output)
    content = check_output(path, force)(found)
    content = content.encode() if isinstance(content, str) else content
    try:
        with path.open("wb" if force else "xb") as file:
            file.write(content)
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        raise StudyError(f"{path} cannot be written: {error.strerror}") from None


def check_output(path: Path, force: bool) -> Any:
    """What makes the content of such a file; refused before anything is computed."""
    if path.suffix not in WRITERS:
        raise StudyError(f"{path.name} ends in neither {' nor '.join(WRITERS)}: name the file by what it shall be")
    if path.exists() and not force:
        raise _taken(path)
    return WRITERS[path.suffix]


def _taken(path: Path) -> StudyError:
    return StudyError(f"{path} is there already: give another name, or --force")


def _csv(found: Predictions) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(found.columns)
    writer.writerows(zip(*found.columns.values(), strict=True))
    return text.getvalue()


def _parquet(found: Predictions) -> bytes:
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.table(found.columns), file)
    return file.getvalue()


WRITERS = {".csv": _csv, ".parquet": _parquet}
