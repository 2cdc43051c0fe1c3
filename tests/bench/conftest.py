"""Fixtures of this room's tests."""

from tests.support.both_links import identities  # noqa: F401  fixtures
