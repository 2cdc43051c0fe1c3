"""Ledgers for commands."""

from collections.abc import Callable
from typing import Any

Parley = Callable[..., Any]
