"""study.toml: the one document of a study."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.study.study import Study


def read(path: Path | str) -> "Study":
    """A study from its file."""
    raise NotImplementedError


def write(study: "Study", path: Path) -> None:
    """The file."""
    raise NotImplementedError
