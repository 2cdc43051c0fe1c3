"""What a file looks like that nobody has described: encoding, delimiter, lines before the header, whether there is one.

A guess, for a draft that a person reads. Once it stands in schema.toml nothing is guessed any more.
"""

import codecs
import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from parley.learning.errors import DataError
from parley.learning.holding import Layout, layout_by_name
from parley.learning.readers import Source, bytes_of, lines_of

DELIMITERS = (",", ";", "\t", "|")
LOOKED_AT = 200
"""Lines."""
MOST_SKIPPED = 20


def sniffed(path: Path) -> Layout:
    """How to read a table whose form nobody has said; a DataError where it is none."""
    form = layout_by_name(path).format
    if form in ("parquet", "jsonl"):
        return Layout(form)
    raw = bytes_of(Source(path))
    if form == "npz" or raw[:2] == b"\0\0" or raw[:2] == b"PK":
        raise DataError(f"{path.name} is no table with names: write features = {{ count = …, low = …, high = … }}")
    encoding = _encoding(raw)
    lines = lines_of(raw.decode("utf-8-sig" if encoding == "utf-8" else encoding))[: LOOKED_AT + MOST_SKIPPED]
    if _is_libsvm(lines):
        raise DataError(f"{path.name} is LIBSVM text: write features = {{ count = …, low = …, high = … }}")
    layout = Layout("csv", encoding=encoding)
    delimiter, rows = max(((each, _rows(lines, each)) for each in DELIMITERS), key=lambda found: _score(found[1]))
    if not rows:
        raise DataError(f"{path.name} has no rows")
    width = _usual_width(rows)
    first = next(index for index, row in enumerate(rows) if len(row) == width)
    skip = first if first <= MOST_SKIPPED else 0
    layout = replace(layout, delimiter=delimiter, skip=skip)
    if _is_header(rows[skip]):
        return layout
    return replace(layout, header=False, columns=tuple(f"column_{place + 1}" for place in range(width)))


def _encoding(raw: bytes) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for encoding in ("utf-8", "cp1252"):
        try:
            raw.decode(encoding)
        except UnicodeError:
            continue
        return encoding
    return "latin-1"


def _rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """A row for each line, so that what stands before the header can be counted."""
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True)]
    except csv.Error:
        return []


def _usual_width(rows: Sequence[Sequence[str]]) -> int:
    return Counter(len(row) for row in rows if row).most_common(1)[0][0] if any(rows) else 0


def _score(rows: Sequence[Sequence[str]]) -> tuple[float, int]:
    """Rows of one width, and wide ones: a text with commas in it is divided into rows of all widths."""
    width = _usual_width(rows)
    if width < 2:
        return 0.0, width
    return round(sum(len(row) == width for row in rows) / len(rows), 2), width


def _is_libsvm(lines: Sequence[str]) -> bool:
    words = [word for line in lines[:5] for word in line.split()[1:]]
    return bool(words) and all(word.partition(":")[0].isdigit() and ":" in word for word in words)


def _is_header(row: Sequence[str]) -> bool:
    """Names: all there, each another, none of them a number."""
    return all(row) and len(set(row)) == len(row) and not any(is_number(cell) for cell in row)


def is_number(text: str) -> bool:
    """Whether a cell's text is a finite number."""
    try:
        return abs(float(text)) < float("inf")
    except ValueError:
        return False
