"""What can go wrong in a study; each message is one line and says what to change."""

from parley.errors import ParleyError


class StudyError(ParleyError):
    """Base of every error that this room and `research` raise on purpose."""


class RunFileError(StudyError):
    """A run file, a study or the data folder is not what a command needs."""
