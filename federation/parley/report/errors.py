"""What can go wrong with a report; each message is one line and says what to change."""

from parley.errors import ParleyError


class ReportError(ParleyError):
    """There is nothing to report, or a file is no report."""


class PagesError(ReportError):
    """A PDF whose attached content is signed, and whose pages cannot be compared with it here."""


class TamperedError(ReportError):
    """A report that is not what its node signed, or does not show what it signed."""
