"""A position in a chain of entries (parley.privacy.chain): its number and its digest, which fix all before it."""

import re
from dataclasses import dataclass

from parley.privacy.errors import LedgerCorruptError

GENESIS = "0" * 64
"""Before the first entry."""


@dataclass(frozen=True)
class Head:
    """A position in the chain, as kept beside the ledger or by somebody else: `sequence:digest` in print."""

    sequence: int
    digest: str

    @classmethod
    def parse(cls, text: str) -> "Head":
        """From its printed form."""
        sequence, _, digest = text.strip().partition(":")
        if re.fullmatch("[0-9]{1,18}:[0-9a-f]{64}", text.strip()) is None:
            raise LedgerCorruptError(f"{text.strip()[:80]!r} is not a head of a ledger: it should read sequence:digest")
        return cls(int(sequence), digest)

    def __str__(self) -> str:
        return f"{self.sequence}:{self.digest}"


START = Head(0, GENESIS)
