"""What can go wrong in `party`, for callers to tell apart; each message is one line and says what to change."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from parley.errors import ParleyError

Made = TypeVar("Made")
MOST_SAID = 20
"""Of the problems of one document, in its error's one line: a manifest comes from a stranger."""


class PartyError(ParleyError):
    """Base of every error that `learning` and `party` raise on purpose."""

    public = False
    """Whether the message may be logged: not by default, for what reads records quotes their cells."""


@dataclass(frozen=True)
class Problem:
    """One of the things that are wrong with a document."""

    where: str
    """The column or the key; nothing where it is the whole."""
    text: str


class SchemaError(PartyError):
    """The schema is not usable, or a cell of the data does not fit it; row and column are named."""

    def __init__(self, text: str, problems: Iterable[Problem] = ()) -> None:
        super().__init__(text)
        self.problems = tuple(problems) or (Problem("", text),)
        """Each thing that is wrong; the error's text has them all."""


class Collected:
    """What is wrong with a document, all of it, said at once."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def look(self, where: str, make: Callable[[], Made]) -> Made | None:
        """What was made, or nothing where it is wrong."""
        try:
            return make()
        except SchemaError as error:
            self._problems += [Problem(each.where or where, each.text) for each in error.problems]
        return None

    def add(self, where: str, text: str) -> None:
        self._problems.append(Problem(where, text))

    def finish(self) -> None:
        """Raises where something is wrong."""
        if self._problems:
            said = [each.text for each in self._problems[:MOST_SAID]]
            more = len(self._problems) - len(said)
            raise SchemaError("; ".join(said + [f"and {more:,} more"] * bool(more)), self._problems)


class DataError(PartyError):
    """A file cannot be read as what it was declared to be."""


class ModelError(PartyError):
    """No such model is built in, or it does not fit the schema."""


class ModelFileError(PartyError):
    """A model file that is none, or that is not the one that was written."""

    public = True
    """It holds what a run has released, and nothing else is quoted."""


class QueryError(PartyError):
    """The coordinator asks for something that this run's mechanism or model does not admit."""

    public = True
