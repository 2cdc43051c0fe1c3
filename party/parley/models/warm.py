"""A public model file as where a run starts: read, checked, and refused unless it is of the same model and columns.

Parties answer at whatever model they are sent, so θ_0 may be anything that is public. What a person has to be able to
see is which file it was and whether private records have gone into it: its card says both, and the manifest repeats it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.federation.start_and_stop import Start
from parley.learning.errors import ModelFileError
from parley.learning.holding import LAYOUT_FIELDS
from parley.learning.model_archive import read_archive
from parley.learning.models import Model
from parley.learning.schema import Schema, schema_from_json
from parley.models.registry import build_model

Floats = NDArray[np.float64]
OPEN = ("public", "made up")
"""What a card may say of the records behind a model that nobody's privacy was spent on; all else counts as private."""
MOST_COST = 1e6
LONGEST_SAID = 10_000


@dataclass(frozen=True)
class WarmStart:
    """θ_0, and what people are told of it."""

    theta: Floats
    card: Mapping[str, Any]

    @property
    def start(self) -> Start:
        """As a manifest names it."""
        return Start(str(self.card["digest"]), self.card.get("records") not in OPEN)

    def as_json(self) -> dict[str, Any]:
        """For the card of the model that comes of it."""
        said = {name: self.card.get(name) for name in ("run", "epsilon", "delta", "statement")}
        return {**self.start.as_json(), **{name: value for name, value in said.items() if value is not None}}


def read_start(path: Path, model: Mapping[str, Any], schema: Schema) -> WarmStart:
    """`model` is the table [model] of the run that is to start there, with or without its dimension."""
    theta, description, card = read_archive(path)
    try:
        columns = {name: value for name, value in description["schema"].items() if name not in LAYOUT_FIELDS}
        theirs = schema_from_json(columns)
        size = len(theta)
        same = _meaning(description["model"], theirs, size) == _meaning(model, schema, size)
    except (KeyError, TypeError, AttributeError):
        raise ModelFileError(f"{path.name} does not say what model it is: write it again with parley") from None
    if not same:
        raise ModelFileError(
            f"{path.name} cannot be where this run starts: it is of another model or other columns; a start needs the "
            "same [model] and the same columns with the same bounds, in the same order"
        )
    dimension = _built(model, schema, size).dimension
    if theta.shape != (dimension,) or not np.isfinite(theta).all():
        raise ModelFileError(f"{path.name} does not hold {dimension:,} finite numbers, which this model has")
    _require_card(card, path.name)
    found = WarmStart(theta, card)
    if found.start.private and card.get("epsilon") is None:
        raise ModelFileError(
            f"{path.name} was trained on private records without any protection: what a run makes of it would tell of "
            "them too; start from a model that has an epsilon, or one of public records"
        )
    return found


def _require_card(card: Mapping[str, Any], name: str) -> None:
    """What a start's card says stands in the next model's card: a long or odd one would make that one unreadable."""
    numbers = [card[each] for each in ("epsilon", "delta") if card.get(each) is not None]
    texts = [card[each] for each in ("run", "statement") if card.get(each) is not None]
    if (
        any(
            isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each <= MOST_COST
            for each in numbers
        )
        or card.get("epsilon") == 0
        or any(not isinstance(each, str) or len(each) > LONGEST_SAID or not each.isprintable() for each in texts)
    ):
        raise ModelFileError(f"{name} has a card that parley did not write: run, statement, epsilon or delta is none")


def _plain(model: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in model.items() if name != "dimension"}


def _built(body: Mapping[str, Any], schema: Schema, size: int) -> Model:
    """A module's size is what is said of it, if that is said: only its own code knows it."""
    return build_model(_plain(body), schema, dimension=body.get("dimension", size))


def _meaning(body: Mapping[str, Any], schema: Schema, size: int) -> tuple[Any, ...]:
    """What each parameter stands for: not how records are counted as units, nor how finely they are encoded, nor what
    a module's public probe came to on one machine."""
    options = {name: list(value) if isinstance(value, tuple) else value for name, value in _plain(body).items()}
    options.pop("probe", None)
    columns = schema.features, schema.transform
    return _built(body, schema, size).dimension, options, columns, schema.target, schema.intercept
