"""Data and run files of a study."""

from tests.support.model_files import path  # noqa: F401  fixtures
from tests.support.run_files import folder  # noqa: F401  fixtures
