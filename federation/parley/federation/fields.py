"""A strict reader of tables: every field is asked for by type, and what nobody asked for is an error with a suggestion.

Used for manifests and policies, from TOML or from the canonical form alike.
"""

import difflib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self, TypeVar

from parley.errors import ParleyError
from parley.federation.errors import FieldError, ManifestError
from parley.federation.names import LABEL_RULE, is_label
from parley.privacy.canonical import canonical_json

LARGEST_WHOLE = (1 << 63) - 1
"""TOML promises 64-bit integers and no more."""
MOST_NESTED = 16
LONGEST_NAME = 200
"""Of a field, in a message."""
MOST_SUGGESTED = 100
"""Names that a misspelt one is compared with: each comparison takes time, and a stranger chooses how many there are."""
Choice = TypeVar("Choice", bound=str)
Built = TypeVar("Built")


@dataclass(frozen=True)
class Plain:
    """A free-form table that nobody can alter: equal tables are equal, and hash alike."""

    text: str

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        return cls(canonical_json(body))

    @property
    def body(self) -> dict[str, Any]:
        """A fresh copy, of dictionaries and lists."""
        found: dict[str, Any] = json.loads(self.text)
        return found


class Fields:
    """One table of a document; `where` is its path, which stands in every error."""

    def __init__(self, body: Any, where: str, error: type[FieldError]) -> None:
        if not isinstance(body, Mapping):
            raise error(where or "the document", f"a table was due, got {_kind(body)}")
        self._body, self._where, self._error = body, where, error
        self._asked: set[str] = set()

    def path(self, name: str) -> str:
        # What a stranger calls a field is in messages that travel and are shown on terminals.
        name = name if name.isprintable() and len(name) <= LONGEST_NAME else _shown(name)
        return f"{self._where}.{name}" if self._where else name

    def refuse(self, name: str, message: str) -> FieldError:
        """The error for a field, for the caller to raise."""
        return self._error(self.path(name), message)

    def has(self, name: str) -> bool:
        """Whether an optional field is there; counts as asking for it."""
        self._asked.add(name)
        return name in self._body

    def _take(self, name: str) -> Any:
        if not self.has(name):
            near = self._unknown_near(name)
            raise self.refuse(name, "is missing" + (f"; did you mean {near!r} by it?" if near else ", add it"))
        return self._body[name]

    def text(self, name: str) -> str:
        value = self._take(name)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.refuse(name, f"is {_shown(value)}: give one line of text")
        return value

    def several_lines(self, name: str) -> str:
        """Text that may go over several lines, such as a query."""
        value = self._take(name)
        if not isinstance(value, str) or not value.strip() or not all(each.isprintable() for each in value.split("\n")):
            raise self.refuse(name, f"is {_shown(value)}: give text")
        return value.strip()

    def is_list(self, name: str) -> bool:
        """Whether a field that may be one table is a list of them."""
        return isinstance(self._take(name), list | tuple)

    def empty_text(self, name: str) -> bool:
        """Whether a field is there and says "" on purpose."""
        return bool(self._take(name) == "")

    def is_text(self, name: str, text: str) -> bool:
        """Whether a field that may be something else is exactly this word."""
        return bool(self._take(name) == text)

    def label(self, name: str) -> str:
        """A part of a node's name."""
        value = self.text(name)
        if not is_label(value):
            raise self.refuse(name, f"is {value!r}: use {LABEL_RULE}")
        return value

    def labels(self, name: str) -> frozenset[str]:
        """A set of names, each once; it may be empty, which admits nobody."""
        value = self._take(name)
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) and is_label(each) for each in value):
            raise self.refuse(name, f"is {_shown(value)}: give a list of names, each {LABEL_RULE}")
        if len(set(value)) < len(value):
            raise self.refuse(name, "names one twice: list each once")
        return frozenset(value)

    def texts(self, name: str) -> frozenset[str]:
        """A set of lines of text, each once; it may be empty."""
        return frozenset(self.text_list(name))

    def text_list(self, name: str) -> tuple[str, ...]:
        """The same where the order means something."""
        value = self._take(name)
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each.strip() for each in value):
            raise self.refuse(name, f"is {_shown(value)}: give a list of texts")
        if len(set(value)) < len(value):
            raise self.refuse(name, "holds one text twice: list each once")
        return tuple(value)

    def text_or_list(self, name: str) -> tuple[str, ...]:
        """One line of text, or a list of at least one."""
        if isinstance(self._body.get(name), list | tuple):
            return self.text_list(name) or (self.text(name),)
        return (self.text(name),)

    def lines(self, name: str) -> tuple[str, ...]:
        """At least one line of text, in order."""
        value = self._take(name)
        if not isinstance(value, list | tuple) or not value or not all(isinstance(each, str) for each in value):
            raise self.refuse(name, f"is {_shown(value)}: give a list of texts")
        return tuple(value)

    def text_by_label(self, name: str) -> Mapping[str, str]:
        """A table from names of nodes to lines of text; it may be empty."""
        fields = self.table(name)
        names = list(fields._body)
        for each in names:
            if not (isinstance(each, str) and is_label(each)):
                raise self.refuse(name, f"has the name {each!r}: use {LABEL_RULE}")
        return MappingProxyType({each: fields.text(each) for each in names})

    def flag(self, name: str) -> bool:
        """true or false."""
        value = self._take(name)
        if not isinstance(value, bool):
            raise self.refuse(name, f"is {_shown(value)}: give true or false")
        return value

    def choice(self, name: str, choices: Iterable[Choice]) -> Choice:
        value = self.text(name)
        for each in choices:
            if each == value:
                return each
        known = [str(each) for each in choices]
        raise self.refuse(name, f"is {value!r}: use {', '.join(known)}{_suggestion(value, known)}")

    def whole(self, name: str, low: int, high: int) -> int:
        value = self._take(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.refuse(name, f"is {_shown(value)}: give a whole number from {low} to {high}")
        return value

    def number(self, name: str, above: float, most: float) -> float:
        """A number in (above, most], as a float however it was spelled."""
        value = self._take(name)
        right = not isinstance(value, bool) and isinstance(value, int | float)
        if not right or not above < value <= most:
            raise self.refuse(name, f"is {_shown(value)}: give a number above {above:g} and at most {most:g}")
        return float(value)

    def table(self, name: str) -> "Fields":
        value = self._take(name)
        return Fields(value, self.path(name), self._error)

    def tables(self, name: str) -> "list[Fields]":
        value = self._take(name)
        if not isinstance(value, list | tuple):
            raise self.refuse(name, f"is {_shown(value)}: give a list of tables, [[{name}]]")
        return [Fields(each, f"{self.path(name)}[{index}]", self._error) for index, each in enumerate(value)]

    def free(self, name: str) -> "Plain":
        """A table whose meaning is another module's; only its values' types are checked here. Absent, it is empty."""
        value = self._body[name] if self.has(name) else {}
        if not isinstance(value, Mapping):
            raise self.refuse(name, f"is {_shown(value)}: give a table")
        return Plain.of(self._plain(value, name, 0))

    def rest(self) -> "Plain":
        """The fields that nobody asked for, where their meaning is another module's."""
        names = [name for name in self._body if name not in self._asked]
        self._asked.update(names)
        return Plain.of({name: self._plain(self._body[name], name, 1) for name in names})

    def _plain(self, value: Any, name: "_Way", depth: int) -> Any:
        """`name` is spelled out only in an error: a stranger's table may hold a hundred thousand values."""
        if depth > MOST_NESTED:
            raise self.refuse(_spelled(name), f"is nested more than {MOST_NESTED} deep: flatten it")
        if isinstance(value, Mapping):
            if not all(isinstance(key, str) and key.isprintable() for key in value):
                raise self.refuse(_spelled(name), "has a field whose name is not one line of text: rename it")
            return {key: self._plain(each, (name, key), depth + 1) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(each, (name, index), depth + 1) for index, each in enumerate(value)]
        if isinstance(value, bool) or (isinstance(value, str) and _is_unicode(value)):
            return value
        if isinstance(value, int) and -LARGEST_WHOLE - 1 <= value <= LARGEST_WHOLE:
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value + 0.0  # minus zero is spelled zero
        raise self.refuse(
            _spelled(name), f"is {_shown(value)}: give text, a finite number, true or false, a list or a table"
        )

    def finish(self) -> None:
        """Call when every known field was asked for: what is left over is refused."""
        for name in self._body:
            if name not in self._asked:
                raise self.refuse(str(name), f"is unknown{_suggestion(str(name), self._asked)}; remove it or rename it")

    def names(self) -> tuple[str, ...]:
        """Of a table whose fields are anybody's."""
        return tuple(str(name) for name in self._body)

    def _unknown_near(self, name: str) -> str | None:
        given = [str(each) for each in itertools.islice(self._body, MOST_SUGGESTED)]
        near = difflib.get_close_matches(name, [each for each in given if len(each) <= LONGEST_NAME], 1, 0.7)
        return near[0] if near else None


_Way = str | tuple[Any, str | int]
"""A path to a value: its name, or where it is in and under which name or at which place."""


def _spelled(way: _Way) -> str:
    if isinstance(way, str):
        return way
    inside, last = way
    return f"{_spelled(inside)}[{last}]" if isinstance(last, int) else f"{_spelled(inside)}.{last}"


def _suggestion(given: str, known: Iterable[str]) -> str:
    if len(given) > LONGEST_NAME:
        return ""
    near = difflib.get_close_matches(given, sorted(known)[:MOST_SUGGESTED], 1, 0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _is_unicode(text: str) -> bool:
    """JSON can spell half of a character, which no message and no database takes."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _kind(value: Any) -> str:
    return {dict: "a table", list: "a list", str: "text", bool: "true or false"}.get(type(value), type(value).__name__)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def built(field: str, build: Callable[[], Built]) -> Built:
    """What lower rooms make of a field's value; they have the last word on it, and their refusal is given its name."""
    try:
        return build()
    except ParleyError as error:
        raise ManifestError(field, str(error)) from None
    except (TypeError, ValueError) as error:  # a parameter of another type, or one that there is not
        raise ManifestError(field, f"{error}: change the parameter's type or name") from None
