"""What can go wrong in a study; each message is one line and says what to change."""

from parley.errors import ParleyError
from parley.federation.errors import FieldError


class StudyError(ParleyError):
    """Base of every error that this room and `research` raise on purpose."""


class DocumentError(StudyError, FieldError):
    """A study.toml has a field that is missing, unknown, of another type or out of range; `field` is its name."""
