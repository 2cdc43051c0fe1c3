"""Which files hold the records: [data] of a study.toml."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Files:
    """Either `train`, one pooled data set that is shared out over `shares` parties, or files of each party by name."""

    parties: tuple[tuple[str, tuple[Path, ...]], ...] = ()
    train: tuple[Path, ...] = ()
    shares: int | None = None
    test: tuple[Path, ...] = ()
    schema: Path | None = None

    @classmethod
    def of(cls, body: Mapping[str, Any], folder: Path = Path()) -> Self:
        """From a table [data]; relative paths are from `folder`."""
        raise NotImplementedError
