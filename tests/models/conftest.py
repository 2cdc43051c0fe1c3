"""Fixtures of the tests of models."""

from tests.support.examined import party, ports  # noqa: F401  fixtures
