"""Fixtures of this room's tests."""

from tests.support.model_files import path  # noqa: F401  fixtures
