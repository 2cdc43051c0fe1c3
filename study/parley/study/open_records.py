"""Records that are nobody's secret: public ones, by the user's word, and rows that this process has made up.

Fits of them are not charged. Made-up tables are known by their whole content, order and target included: a table in
which one cell was changed since is as private as any other.
"""

import hashlib
import threading
from collections.abc import Iterator

from parley.learning.readers import Data, Dense, Table

PRIVATE, OPEN, MADE_UP = "private", "public", "made up"
"""What a card says of the records behind a model."""
_LOCK = threading.Lock()
_MADE_UP: set[bytes] = set()


def note_made_up(data: Data) -> None:
    """This process has made these records up: whatever is tried on them costs nobody anything."""
    digest = _digest(data)
    with _LOCK:
        _MADE_UP.add(digest)


def is_made_up(data: Data) -> bool:
    """Whether they are exactly what this process has made up."""
    with _LOCK:
        known = bool(_MADE_UP)
    return known and _digest(data) in _MADE_UP


def _digest(data: Data) -> bytes:
    found = hashlib.sha256()
    for each in _texts(data):
        found.update(hashlib.sha256(each).digest())
    return found.digest()


def _texts(data: Data) -> Iterator[bytes]:
    if isinstance(data, Table):
        for name in sorted(data.columns):
            yield "\x1f".join((name, *map(repr, data.columns[name]))).encode(errors="surrogatepass")
    elif isinstance(data, Dense):
        yield repr(data.values.shape).encode() + data.values.tobytes()
        yield "\x1f".join(map(repr, data.labels.tolist())).encode()
    else:
        yield data.columns.tobytes() + data.values.tobytes() + "\x1f".join(map(str, data.labels)).encode()
