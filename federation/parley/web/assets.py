"""What all pages look like: style, script, fonts, the mark. A page names them by an address that changes with them."""

import hashlib
from functools import lru_cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"


@lru_cache(maxsize=16)
def asset(name: str) -> str:
    """An asset's address, which changes with its content, so that browsers may keep it."""
    return f"/static/{name}?{hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"
