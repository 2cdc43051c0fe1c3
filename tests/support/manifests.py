"""Manifests with one thing changed."""

from collections.abc import Iterator
from typing import Any

from tests.support.documents import BODY


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


LEAVES = dict(leaves(BODY))


def field_of(path: str) -> str:
    """parties.0.name as the errors spell it: parties[0].name."""
    return "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in path.split(".")).lstrip(".")
