"""What can go wrong in a study; each message is one line and says what to change."""

from collections.abc import Callable
from typing import TypeVar

from parley.errors import ParleyError
from parley.federation.errors import FieldError

Made = TypeVar("Made")


class StudyError(ParleyError):
    """Base of every error that this room and `research` raise on purpose."""


class DocumentError(StudyError, FieldError):
    """A study.toml has a field that is missing, unknown, of another type or out of range; `field` is its name."""


class Collected:
    """All that is wrong with a study, said at once; one problem alone is raised as it is."""

    def __init__(self) -> None:
        self._problems: list[ParleyError] = []

    def look(self, make: Callable[[], Made]) -> Made | None:
        """What was made, or nothing where it is wrong."""
        try:
            return make()
        except ParleyError as error:
            self._problems.append(error)
        return None

    def finish(self) -> None:
        """Raises where something is wrong."""
        if len(self._problems) > 1:
            raise StudyError("; ".join(map(str, self._problems)))
        if self._problems:
            raise self._problems[0]
