"""What a user may give as a schema."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parley.learning.holding import Layout
from parley.learning.schema import Schema


def columns_of(given: Schema | Path | str | Mapping[str, Any]) -> tuple[Schema, Layout | None]:
    """The columns, and what files look like where an institution's schema.toml says it."""
    raise NotImplementedError
