"""Data and files of a study."""

from tests.support.model_files import path  # noqa: F401  fixtures
from tests.support.studies import folder  # noqa: F401  fixtures
