"""What a simulation found: one seed's model, and figures that are for the person who ran it alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.study.model_file import LoadedModel
from parley.study.plan import Plan

if TYPE_CHECKING:
    from parley.study.study import Study


@dataclass(frozen=True)
class Interval:
    """A figure over seeds: its mean, and Student's 95 % interval; None for its ends where there is one seed."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Result:
    """What `Study.simulate` gives."""

    study: "Study"
    plan: Plan
    model: LoadedModel
    """The first seed's: never the best one's, whose choice would be a release of its own."""
    quality: Mapping[str, Interval]
    without_privacy: Mapping[str, float]
    constant: Mapping[str, float]
    curve: tuple[tuple[int, float], ...]
    fits: int

    def save(self, path: Path | str) -> None:
        """The model and its card."""
        raise NotImplementedError

    def plot(self, path: Path | str | None = None) -> Any:
        """The curve over rounds."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """The fields of `parley simulate --json`."""
        raise NotImplementedError


def simulate(study: "Study", data: Any, *, test: Any, seeds: int, repeatable: bool, workers: int) -> Result:
    """`Study.simulate`."""
    raise NotImplementedError
