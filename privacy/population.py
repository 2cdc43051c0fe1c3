"""Whose data: populations, found again by their content when files are renamed. Standard library only.

Rows are hashed under a salt of the ledger, so that a digest in a report cannot be tried against guessed rows; order
and repetition do not matter. Besides the digest of the whole, the smallest row hashes are kept: with them a file that
was changed in a few rows is recognised as the same people, and does not come with a fresh budget.
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from privacy.errors import InvalidParameter

SKETCH = 4096
"""Row hashes kept. A tenth in common is estimated to half a point; of a population of n rows, subsets down to about
n / 1000 are recognised."""
HASH_BYTES = 8
LARGEST_OVERLAP = 0.1
"""Share of the smaller population that two may have in common: different people can have equal rows, where columns
are few and coarse, and beyond this it is no accident."""


@dataclass(frozen=True)
class Identity:
    """A population's content, salted."""

    digest: str
    rows: int
    """Distinct rows."""
    sketch: tuple[str, ...]
    """The smallest row hashes, ascending."""

    @classmethod
    def of(cls, salt: str, rows: Iterable[bytes]) -> "Identity":
        """From each unit's canonical bytes, in any order."""
        key = bytes.fromhex(salt)
        hashes = sorted({hmac.new(key, row, hashlib.sha256).digest()[:HASH_BYTES] for row in rows})
        if not hashes:
            raise InvalidParameter("the population has no rows: check the file")
        digest = hmac.new(key, b"population" + b"".join(hashes), hashlib.sha256).hexdigest()
        return cls(digest, len(hashes), tuple(item.hex() for item in hashes[:SKETCH]))

    def overlap(self, other: "Identity") -> float:
        """The estimated share of the smaller population that the other one also holds."""
        size = SKETCH if min(self.rows, other.rows) > SKETCH else None
        mine, its = set(self.sketch), set(other.sketch)
        if size is None:
            # One sketch is complete: compare where both are, which is below the other's largest kept hash.
            limits = [max(side.sketch) for side in (self, other) if side.rows > len(side.sketch)]
            limit = min(limits, default="g")
            mine, its = {item for item in mine if item <= limit}, {item for item in its if item <= limit}
            return len(mine & its) / max(1, min(len(mine), len(its)))
        smallest = set(sorted(mine | its)[:size])
        jaccard = len(smallest & mine & its) / size
        return min(1.0, jaccard * (self.rows + other.rows) / (1 + jaccard) / min(self.rows, other.rows))

    def as_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return {"digest": self.digest, "rows": self.rows, "sketch": list(self.sketch)}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> "Identity":
        """The inverse of `as_json`."""
        return cls(body["digest"], body["rows"], tuple(body["sketch"]))
