"""What a page of the report is made of, whatever draws it: text without marks."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: str = ""
    """`big`, `quiet` or `warning`."""


@dataclass(frozen=True)
class Points:
    """A list."""

    each: tuple[str, ...]


@dataclass(frozen=True)
class Rows:
    """What is said of what."""

    each: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows under a head; of `right` columns the figures stand under one another."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    shares: tuple[int, ...]
    """Of the width, for each column, in hundredths."""
    right: tuple[int, ...] = ()


Block = Heading | Text | Points | Rows | Table


@dataclass(frozen=True)
class Document:
    """A report as it is read."""

    title: str
    subtitle: str
    blocks: tuple[Block, ...]
    foot: str
