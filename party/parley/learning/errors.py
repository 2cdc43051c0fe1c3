"""What can go wrong in `party`, for callers to tell apart; each message is one line and says what to change."""

from parley.errors import ParleyError


class PartyError(ParleyError):
    """Base of every error that `learning` and `party` raise on purpose."""

    public = False
    """Whether the message may be logged: not by default, for what reads records quotes their cells."""


class SchemaError(PartyError):
    """The schema is not usable, or a cell of the data does not fit it; row and column are named."""


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
