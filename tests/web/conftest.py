"""A client of the application, without a socket."""

from tests.support.browser import browser  # noqa: F401  a fixture
