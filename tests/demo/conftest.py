"""The demonstration's federation in folders."""

from tests.support.containers import federation  # noqa: F401  fixtures
