"""Whose data: populations, found again by their content when files are renamed.

Rows are hashed under a salt of the ledger, so that a digest in a report cannot be tried against guessed rows; order
and repetition do not matter. Besides the digest of the whole, the smallest row hashes are kept: with them a file that
was changed in a few rows is recognised as the same people, and does not come with a fresh budget.
"""

import hashlib
import hmac
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.privacy.errors import InvalidParameterError

SKETCH = 4096
"""Row hashes kept. A tenth in common is estimated to half a point; of a population of n rows, subsets down to about
n / 1000 are recognised."""
HASH_BYTES = 8
HASH = np.dtype(">u8")
"""Big-endian: numbers and their bytes have one order."""
ROWS_AT_ONCE = 1 << 16
"""Hashed between two sorts: the memory is 8 bytes per distinct row, and a few MB."""
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
        key = hmac.new(bytes.fromhex(salt), digestmod=hashlib.sha256)
        hashes = np.zeros(0, HASH)
        rows = iter(rows)
        while batch := list(itertools.islice(rows, ROWS_AT_ONCE)):
            fresh = np.frombuffer(b"".join(_hashed(key, row) for row in batch), HASH)
            hashes = np.union1d(hashes, fresh)
        if not hashes.size:
            raise InvalidParameterError("the population has no rows: check the file")
        digest = hmac.new(bytes.fromhex(salt), b"population" + hashes.tobytes(), hashlib.sha256).hexdigest()
        return cls(digest, len(hashes), tuple(f"{item:016x}" for item in hashes[:SKETCH].tolist()))

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

    def same_people(self, other: "Identity") -> bool:
        """Whether both are one population's, under whatever names."""
        return self.digest == other.digest or self.overlap(other) > LARGEST_OVERLAP

    def as_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return {"digest": self.digest, "rows": self.rows, "sketch": list(self.sketch)}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> "Identity":
        """The inverse of `as_json`."""
        return cls(body["digest"], body["rows"], tuple(body["sketch"]))


def _hashed(key: "hmac.HMAC", row: bytes) -> bytes:
    found = key.copy()
    found.update(row)
    return found.digest()[:HASH_BYTES]
