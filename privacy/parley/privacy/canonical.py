"""One spelling of JSON: what digests are over, in ledgers, mechanisms, manifests and model files alike."""

import hashlib
import json
from typing import Any

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def canonical_json(body: Any) -> str:
    """Keys sorted, no spaces, ASCII, floats as the shortest text that reads back the same; nothing infinite."""
    return _encode(body)


def digest_of(body: Any) -> str:
    """SHA-256 of the canonical form, in hexadecimal."""
    return hashlib.sha256(canonical_json(body).encode()).hexdigest()
