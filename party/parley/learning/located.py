"""Lines of a TOML document for its errors, found by the column's name or the key: `tomllib` tells none."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from parley.learning.errors import Problem, SchemaError


@contextmanager
def located(data: bytes, file: str) -> Iterator[None]:
    """A SchemaError from within names the file, and for each thing that is wrong its line."""
    try:
        yield
    except SchemaError as error:
        found = _places(error, data.decode(errors="replace"))
        said = [_said(line, what) for line, what in found]
        shown = f"{file}, {said[0]}" if found[0][0] else f"{file}: {said[0]}"
        if len(said) > 1:
            shown = "\n  ".join([f"{file} has {len(said):,} things to correct:", *said])
        again = [Problem(each.where, each.text) for each in error.problems]
        raise SchemaError(shown, again) from None


def in_lines(error: SchemaError, text: str) -> str:
    """The same in one line, for a part of a document of which others know the name."""
    return "; ".join(_said(line, what) for line, what in _places(error, text))


def _places(error: SchemaError, text: str) -> list[tuple[int, str]]:
    return sorted({(line_of(text, each.where) or 0, each.text) for each in error.problems})


def _said(line: int, what: str) -> str:
    return f"line {line}: {what}" if line else what


def line_of(text: str, where: str) -> int | None:
    """Where a column is described, or a key is given a value, counted as an editor counts lines."""
    if not where:
        return None
    quoted = rf"""["']{re.escape(where)}["']"""
    forms = (rf"\bname\s*=\s*{quoted}", rf"^\s*\[*\s*{re.escape(where)}\s*(?:\]|=)", quoted)
    for form in forms:
        if (match := re.search(form, text, re.MULTILINE)) is not None:
            start = match.end() if form.startswith("^") else match.start()
            return text.count("\n", 0, start) + 1
    return None
