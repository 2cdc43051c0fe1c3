"""What can go wrong in `privacy`, for callers to tell apart; each message is one line and says what to change."""

from parley.errors import ParleyError


class PrivacyError(ParleyError):
    """Base of every error that this room raises on purpose."""


class InvalidParameterError(PrivacyError):
    """A number or a combination of settings under which no guarantee exists."""


class ConditionsUnmetError(PrivacyError):
    """A theorem was asked for a figure outside the conditions under which it was proved."""

    def __init__(self, message: str, conditions: tuple[str, ...]) -> None:
        super().__init__(message)
        self.conditions = conditions


class BudgetExceededError(PrivacyError):
    """A run does not fit what is left of a population's budget."""

    def __init__(self, message: str, exhausted: tuple[str, ...] = ("epsilon",)) -> None:
        super().__init__(message)
        self.exhausted = exhausted
        """What is not left: `epsilon`, `delta` or both."""


class LedgerCorruptError(PrivacyError):
    """The ledger on disk is not the one that was written: an edit, a gap, a reordering or a cut."""


class LedgerRefusedError(PrivacyError):
    """The ledger is sound and does not admit the request."""


class OtherContentError(LedgerRefusedError):
    """A run was charged for other rows than those it is to go on with."""
