"""Whose records count for nothing: a list of people who objected, and which rows are theirs.

One identifier on a line, as the schema's `unit` column has it; without such a column, a record's number, the first one
being 1. A line that begins with # is a comment; an identifier that does is written with a blank before it. A list of
numbers says of which files they are the numbers, for in another file another person has the number.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parley.federation.files import file_bytes
from parley.learning.errors import DataError
from parley.learning.holding import Holding
from parley.learning.readers import Data, Dense, Sparse, Table
from parley.learning.records import unit_names

Flags = NDArray[np.bool_]
MOST_BYTES = 1 << 24
LONGEST = 1000
"""Characters of an identifier."""
NUMBERS = "# record numbers of "
DIGITS = 16


@dataclass(frozen=True)
class ExclusionList:
    """What a list says; of what is in the records it knows nothing."""

    names: frozenset[str] = frozenset()
    of: str = ""
    """Of which files its numbers are; empty where it does not say."""

    def text(self) -> str:
        """What `parsed` reads."""
        head = [f"{NUMBERS}{self.of}"] if self.of else []
        return "".join(f"{line}\n" for line in [*head, *map(line_of, sorted(self.names))])

    def require_of(self, holding: Holding, files: Sequence[str], name: str) -> None:
        """A DataError for numbers that may be other people's by now; `files` are the SHA-256 of the data files."""
        due = files_mark(files)
        if holding.unit is None and self.names and self.of != due:
            raise DataError(
                f"{name} excludes records by number and does not say that they are of these files: look at each record "
                f"once more, then write this as its first line: {NUMBERS}{due}"
            )


NOBODY = ExclusionList()


def line_of(identifier: str) -> str:
    """As a list has it."""
    return f" {identifier}" if identifier.startswith("#") else identifier


def checked(identifiers: Iterable[str]) -> list[str]:
    """As they are compared; a DataError for what no line can hold."""
    found = [each.strip() for each in identifiers]
    for place, each in enumerate(found, 1):
        if not each or len(each) > LONGEST or len(each.splitlines()) != 1 or "\0" in each:
            raise DataError(f"identifier {place} is no line of 1 to {LONGEST} characters: give the unit's own name")
    return found


def files_mark(files: Sequence[str]) -> str:
    """By which a list of numbers knows its files."""
    return hashlib.sha256("\n".join(files).encode()).hexdigest()[:DIGITS]


def parsed(data: bytes, name: str) -> ExclusionList:
    """A DataError names a line and quotes nothing of it."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeError:
        raise DataError(f"{name} is not UTF-8 text: convert it") from None
    found, of = set(), ""
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if line.startswith(NUMBERS):
            if of:
                raise DataError(f"{name}, line {number}: numbers of two files: keep one list for each")
            of = line.removeprefix(NUMBERS).strip()
        elif line.startswith("#") or not line.strip():
            continue
        elif len(line) > LONGEST or len(line.strip().splitlines()) != 1:
            raise DataError(f"{name}, line {number} is no identifier of 1 to {LONGEST} characters: correct it")
        else:
            found.add(line.strip())
    return ExclusionList(frozenset(found), of)


def read_list(path: Path) -> ExclusionList:
    """A DataError where there is none: whoever named a list must not run without it."""
    return parsed(list_bytes(path), path.name)


def list_bytes(path: Path) -> bytes:
    """As it stands."""
    missing = "write it, it may be empty, or leave out [data] excluded"
    return file_bytes(path, lambda problem: DataError(f"{path.name} {problem}"), missing, MOST_BYTES)


def null_rows(data: Data, holding: Holding, names: frozenset[str]) -> Flags:
    """bool[rows]: which records are theirs."""
    own = _names(data, holding)
    return np.fromiter((each in names for each in own), np.bool_, count=_count(data))


def missing(data: Data, holding: Holding, names: frozenset[str]) -> list[str]:
    """Those of the list that no record has."""
    return sorted(names - set(_names(data, holding)))


def matched(data: Data, holding: Holding, names: frozenset[str]) -> int:
    """How many units of privacy the list takes out."""
    return len(names & set(_names(data, holding)))


def _names(data: Data, holding: Holding) -> Iterable[str]:
    """Of each row."""
    if holding.unit is not None and isinstance(data, Table):
        return unit_names(data, holding.unit, holding.layout)
    return map(str, range(1, _count(data) + 1))


def _count(data: Data) -> int:
    match data:
        case Table():
            return data.count
        case Sparse():
            return len(data.labels)
        case Dense():
            return len(data.values)
