"""What stands between the columns of a schema and the rows that a model sees: features that are computed once.

    transform = { kind = "scattering", shape = [1, 28, 28], scales = 2, angles = 8, pool = 0, groups = 27 }

Several stand side by side: each sees all columns, encoded as the schema says, and their features follow one another.
All of it is public and stands in the manifest. Every row is normalised by itself, in groups of features: what comes out
has a public bound whatever went in, and no mean or deviation of anybody's data is needed. `parley.learning.features`
computes it.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from parley.learning.checks import check_text, check_whole
from parley.learning.columns import LATER
from parley.learning.errors import Collected, SchemaError
from parley.learning.schema_tables import build, plain
from parley.learning.wavelets import channels

MOST_SCALES = 5
MOST_ANGLES = 16
LARGEST_SIDE = 512
"""Of an image, in pixels."""
MOST_FEATURES = 1 << 18
"""Of all transforms of a schema: a manifest comes from a stranger, and each record has as many numbers."""
MOST_WORK = 1 << 26
"""Of a record's scattering, in channels times padded pixels: some hundredths of a second. An image of 224 x 224 pixels
in three colours fits with three scales."""
MOST_TRANSFORMS = 8
CODE = "torch:"
"""What the kind of a transform begins with that is a user's own code."""
DIGEST = "sha256:"


class Normalised(ABC):
    """What all have in common: features in groups, each of mean 0 and mean square at most 1 in every single row."""

    shape: tuple[int, ...]
    groups: int

    @property
    @abstractmethod
    def features(self) -> int:
        """How many come of a row."""

    @property
    def inputs(self) -> int:
        """Columns that it sees."""
        return math.prod(self.shape)

    @property
    def group(self) -> int:
        """Features in one group."""
        return self.features // self.groups

    @property
    def largest(self) -> float:
        """Of one feature: where all others of its group are equal."""
        return math.sqrt(self.group)

    def longest_squared(self, fraction_bits: int) -> int:
        """A bound on the squared norm of a row in steps: each step rounds by no more than a half."""
        return int(self.features * (4**fraction_bits + 2**fraction_bits + 1))

    def check_shape(self, where: str) -> None:
        """Channels, height and width."""
        shape = tuple(self.shape) if isinstance(self.shape, list | tuple) else ()
        if len(shape) != 3:
            raise SchemaError(f"{where}: shape is {str(self.shape)[:40]}, give [channels, height, width]")
        for each in shape:
            check_whole(where, "a side of shape", each, 1, LARGEST_SIDE)
        object.__setattr__(self, "shape", shape)

    def check_groups(self, where: str, units: int, what: str) -> None:
        """Whether they are equally large."""
        check_whole(where, "groups", self.groups, 1, units)
        if units % self.groups:
            few = [each for each in range(1, min(units, 1024) + 1) if units % each == 0]
            raise SchemaError(
                f"{where}: groups is {self.groups} and does not divide {units:,} {what}: use one of "
                f"{', '.join(map(str, few))}"
            )
        if self.group < 2:
            raise SchemaError(f"{where}: groups of one feature would all be 0: use fewer groups")


@dataclass(frozen=True)
class Scattering(Normalised):
    """The scattering transform of order two (`parley.learning.wavelets`), pooled, in groups of channels."""

    shape: tuple[int, ...]
    """Channels, height and width: the columns of a row, in this order."""
    scales: int = 2
    """One value of each feature for every 2^scales pixels, each way."""
    angles: int = 8
    pool: int = 0
    """Means of so many by so many areas of each channel; 0 leaves all of it."""
    groups: int = 27

    kind = "scattering"

    def __post_init__(self) -> None:
        self.check_shape(self.kind)
        check_whole(self.kind, "scales", self.scales, 1, MOST_SCALES)
        check_whole(self.kind, "angles", self.angles, 1, MOST_ANGLES)
        least = min(self.shape[1:])
        if least < 2**self.scales:
            raise SchemaError(f"scattering: an image of {least} pixels has no scale of {2**self.scales}: lower scales")
        height, width = (each + 2 ** (self.scales + 1) for each in self.shape[1:])
        if self.channels * height * width > MOST_WORK:
            raise SchemaError("scattering: an image takes too long: use fewer angles or scales, or smaller images")
        check_whole(self.kind, "pool", self.pool, 0, least >> self.scales)
        self.check_groups(self.kind, self.channels, "channels")

    @property
    def channels(self) -> int:
        return self.shape[0] * channels(self.scales, self.angles)

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of each channel as it leaves."""
        height, width = (each >> self.scales for each in self.shape[1:])
        return (self.pool, self.pool) if self.pool else (height, width)

    @property
    def features(self) -> int:
        return self.channels * math.prod(self.sides)


@dataclass(frozen=True)
class Extractor(Normalised):
    """A frozen extractor of a user's own: a package that is installed at every party and allowed by its digest."""

    kind: str
    """torch:package.module:extract, a function of a tensor [records, *shape] that gives one [records, columns]"""
    shape: tuple[int, ...]
    columns: int
    """How many features it gives."""
    trained_on: str
    """The public data that its weights are from."""
    declared_by: str
    """Who says so. Nobody checks it."""
    digest: str = field(default="", metadata=LATER)
    """SHA-256 over the package's files, weights among them; a manifest has it, a study may leave it out."""
    groups: int = 1

    def __post_init__(self) -> None:
        where = check_text("transform", "kind", self.kind)
        package, colon, name = where.removeprefix(CODE).partition(":")
        if not colon or not name.isidentifier() or not all(each.isidentifier() for each in package.split(".")):
            raise SchemaError(f"transform: kind is {where[:40]!r}, give torch:package.module:extract")
        self.check_shape(where)
        check_whole(where, "columns", self.columns, 2, MOST_FEATURES)
        if self.digest != "":
            check_digest(where, self.digest)
        for what in ("trained_on", "declared_by"):
            check_text(where, what, getattr(self, what))
        self.check_groups(where, self.columns, "columns")

    @property
    def features(self) -> int:
        return self.columns

    @property
    def declaration(self) -> str:
        """For people, wherever the result of a run is shown."""
        return f"{self.kind}: trained on {self.trained_on}, says {self.declared_by}: declared, not checked"


Transform = Scattering | Extractor


def check_digest(where: str, digest: Any) -> None:
    """sha256: and 64 hexadecimal digits."""
    body = digest.removeprefix(DIGEST) if isinstance(digest, str) and digest.startswith(DIGEST) else ""
    if len(body) != 64 or set(body) - set("0123456789abcdef"):
        raise SchemaError(f"{where}: digest is {str(digest)[:40]!r}, give what `parley model show` prints")


def transforms_from(found: Any) -> tuple[Transform, ...]:
    """One table, or a list of them."""
    entries = [found] if isinstance(found, dict) else found
    if not isinstance(entries, list | tuple) or not 1 <= len(entries) <= MOST_TRANSFORMS:
        raise SchemaError(f"transform: give one table with kind and shape, or a list of up to {MOST_TRANSFORMS}")
    collected = Collected()
    made = [collected.look("transform", partial(_transform, each)) for each in entries]
    collected.finish()
    return tuple(each for each in made if each is not None)


def _transform(body: Any) -> Transform:
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or not (kind == Scattering.kind or kind.startswith(CODE)):
        raise SchemaError(
            f'transform: kind is {str(kind)[:40]!r}, use "scattering", or "torch:package.module:extract" for your own'
        )
    values = dict(body)
    if kind == Scattering.kind:
        del values["kind"]
    made: Transform = build(Scattering if kind == Scattering.kind else Extractor, values, kind[:80])
    return made


def transforms_as_json(transforms: tuple[Transform, ...]) -> list[dict[str, Any]]:
    """As documents hold them; `transforms_from` is its inverse."""
    return [{"kind": each.kind, **plain(each)} for each in transforms]


def check_transforms(transforms: Any, width: int) -> None:
    """Of a schema whose columns are encoded to `width` numbers."""
    if not isinstance(transforms, tuple) or not all(isinstance(each, Scattering | Extractor) for each in transforms):
        raise SchemaError("transform: give one table with kind and shape, or a list of them")
    for each in transforms:
        if each.inputs != width:
            sides = " x ".join(map(str, each.shape))
            raise SchemaError(f"{each.kind}: shape is {sides} = {each.inputs:,} and there are {width:,} columns: agree")
    if sum(each.features for each in transforms) > MOST_FEATURES:
        raise SchemaError(f"transform: more than {MOST_FEATURES:,} features come of a row: pool, or use fewer scales")


def declared(transforms: tuple[Transform, ...]) -> tuple[str, ...]:
    """What is believed of them and not known."""
    return tuple(each.declaration for each in transforms if isinstance(each, Extractor))


def named_code(transforms: tuple[Transform, ...]) -> dict[str, str]:
    """Digests by name of all code that a schema would have run."""
    return {each.kind: each.digest for each in transforms if isinstance(each, Extractor)}


KEYS = {kind: tuple(each.name for each in fields(kind)) for kind in (Scattering, Extractor)}
"""What a table may say: docs/schema.md lists it."""
