"""Data and run files of a study."""

from tests.support.run_files import folder  # noqa: F401  fixtures
