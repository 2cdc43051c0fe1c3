"""Records in memory: from files, frames and whatever else a user has, encoded by the study's schema.

What the parties train on, and the test set that scores the model: a public one that was given, or a part of the records
that is held out (by units of privacy, so that nobody is in both).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parley.federation.names import LABEL_RULE, is_label
from parley.learning.columns import Uniform
from parley.learning.errors import SchemaError
from parley.learning.holding import CSV, Layout
from parley.learning.readers import Data, Dense, Sparse, read
from parley.learning.records import Records, encode, of_units
from parley.learning.rows import DenseRows, Rows, SparseRows
from parley.learning.schema import Schema
from parley.learning.spreads import Spread, warnings_of
from parley.models.extractor_spec import run_here
from parley.study.columns import layout_for
from parley.study.errors import StudyError
from parley.study.fit_costs import SPENDING, rows_of
from parley.study.frames import data_of
from parley.study.open_records import MADE_UP, OPEN, PRIVATE, is_made_up
from parley.study.simulation import SeededRandomness, permutation, split

if TYPE_CHECKING:
    from parley.study.study import Study

HELD_OUT = 0.2
"""Of each party's units, where no test set is given."""


@dataclass(frozen=True)
class Sets:
    """What a study is trained on and scored by."""

    own: Mapping[str, Records]
    """Of each party; or one pooled set alone, where `shares` says over whom it is shared out."""
    shares: tuple[str, ...] = ()
    test: Records | None = None
    source: Any = None
    """The test set as it was given, where it is public."""
    public: bool = False
    """Whether the test set is no part of the records: then figures on it may be shown to anybody."""
    kind: str = PRIVATE
    """Whose the records are: private; public, by the user's word; or made up, by this process."""
    rows: tuple[bytes, ...] = ()
    """What this process counts the records' fits by: parley.study.fit_costs."""
    warnings: tuple[str, ...] = ()
    """Bounds that do not suit the records: for the eyes of whoever simulates."""

    @property
    def may_decide(self) -> bool:
        """Whether what the test set says may be known to anybody."""
        return self.public or self.kind != PRIVATE

    @property
    def pooled(self) -> Records:
        """The one set that there is."""
        (records,) = self.own.values()
        return records

    def parties(self, seed: int) -> dict[str, Records]:
        """Each party's own, a pooled set shared out by this seed."""
        if not self.shares:
            return dict(self.own)
        parts = split(self.pooled, len(self.shares), seed)
        return dict(zip(self.shares, parts.values(), strict=True))

    def sizes(self) -> dict[str, int]:
        """Units of privacy of each party."""
        return {name: records.units for name, records in self.parties(0).items()}

    def held_out(self, share: float, randomness: SeededRandomness) -> "Sets":
        """With this share of each set's units as the test set, which is as private as the rest."""
        kept, taken = {}, []
        for name, records in self.own.items():
            count = round(share * records.units)
            if not 1 <= count < records.units:
                raise StudyError(
                    f"{name} has {records.units:,} units, too few to hold out {share:g} of them: give a test set"
                )
            order = permutation(records.units, randomness)
            taken.append(of_units(records, np.sort(order[:count])))
            kept[name] = of_units(records, np.sort(order[count:]))
        return replace(self, own=kept, test=together(taken), public=False)


def sets_of(
    study: "Study",
    data: Any = None,
    test: Any = None,
    randomness: SeededRandomness | None = None,
    public: bool = False,
) -> Sets:
    """What `Study.simulate` was given, read and encoded; without `randomness` nothing is held out.

    `public` is the user's word that all of it is.
    """
    sources, shares = _sources(study, data)
    found = {name: _records(study, source) for name, source in sources.items()}
    rows = tuple({row for each in found.values() for row in each.rows})  # once, also of those whom two parties have
    of = {name: f"{name}: " if len(found) > 1 else "" for name in found}
    said = tuple(of[name] + text for name, each in found.items() for text in each.warnings)
    kind = OPEN if public else MADE_UP if all(each.made_up for each in found.values()) else PRIVATE
    sets = Sets({name: each.records for name, each in found.items()}, shares, kind=kind, rows=rows, warnings=said)
    if test is None and study.data is not None and study.data.test and kind != MADE_UP:
        test = study.data.test  # which says nothing of made-up rows
    if isinstance(test, int | float):
        if not 0 < test < 1:
            raise StudyError(f"test is {test:g}: give a share between 0 and 1, a path or a frame")
    elif test is not None:
        scored = _records(study, test)
        shared = _shared(scored, found) if kind == PRIVATE else ()
        return replace(sets, test=scored.records, source=test, public=True, warnings=(*said, *shared))
    return sets if randomness is None else sets.held_out(HELD_OUT if test is None else test, randomness)


def _shared(test: "Read", found: Mapping[str, "Read"]) -> tuple[str, ...]:
    """Refuse a test set that is one of the sets of records, and say if most of it may be among them."""
    rows = set(test.rows)
    for name, each in found.items():
        if _same(test.records, each.records):
            raise StudyError(
                f"test is the same table as the records of {name}: a card would show figures on private records. Give "
                "a public table, or a share of the records that is held out, such as test=0.2"
            )
    among = len(rows & {row for each in found.values() for row in each.rows})
    if 2 * among <= len(rows):
        return ()
    return (
        f"{among:,} of {len(rows):,} different rows of test are among the records too: if these are the same people, "
        "test is not public, and the card of a saved model shows figures on them. Give a public table, or test=0.2",
    )


def _same(one: Records, other: Records) -> bool:
    """Whether they are one table: the same rows in the same order."""
    return (
        len(one.rows) == len(other.rows)
        and np.array_equal(one.targets, other.targets)
        and _same_rows(one.rows, other.rows)
    )


def _same_rows(one: Rows, other: Rows) -> bool:
    if isinstance(one, SparseRows) and isinstance(other, SparseRows):  # whose values alone may all be ones
        return np.array_equal(one.columns, other.columns) and np.array_equal(one.values, other.values)
    return isinstance(one, DenseRows) and isinstance(other, DenseRows) and np.array_equal(one.values, other.values)


def _sources(study: "Study", data: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What each party brings; or one pooled set, and the names that it is shared out over."""
    files = study.data
    if data is None:
        if files is None or not (files.parties or files.train):
            raise StudyError("no records: give data to simulate, or name files in [data], as train or as parties")
        data = dict(files.parties) if files.parties else files.train
    columns = isinstance(data, Mapping) and study.schema.target.name in data
    if isinstance(data, Mapping) and not columns:
        if not data:
            raise StudyError("data names no party: give at least one set of records")
        for name in data:
            if not isinstance(name, str) or not is_label(name):
                raise StudyError(f"data has a party called {name!r}: use {LABEL_RULE}")
        return dict(data), ()
    names = tuple(study.parties)
    if files is not None and files.shares is not None:
        if names and len(names) != files.shares:
            raise StudyError(f"[data] shares train out over {files.shares} and {len(names)} parties are named: agree")
        names = names or shares_of(files.shares)
    return {"pooled": data}, names or shares_of(1)


def shares_of(count: int) -> tuple[str, ...]:
    """Names of parties that have none."""
    return tuple(f"party-{index + 1}" for index in range(count))


@dataclass(frozen=True)
class Read:
    """One set of records."""

    records: Records
    rows: tuple[bytes, ...]
    """What their fits are counted by."""
    warnings: tuple[str, ...]
    made_up: bool
    """Whether this process has made them up."""

    @classmethod
    def of(cls, raw: Data, schema: Schema, layout: Layout) -> "Read":
        spreads: dict[str, Spread] = {}
        records = encode(raw, schema, layout, spreads, run_here())
        return cls(records, _rows(raw, schema), tuple(warnings_of(spreads)), is_made_up(raw))


def _records(study: "Study", source: Any) -> Read:
    """Encoded."""
    source = _paths(source)
    if _are_paths(source):
        return _from_files(source, _stamps(source), layout_for(source[0], study.schema, study.layout), study.schema)
    return Read.of(raw_of(study, source)[0], study.schema, study.layout or CSV)


def raw_of(study: "Study", source: Any) -> tuple[Data, Layout]:
    """As it was read, before anything of it is encoded."""
    source = _paths(source)
    if _are_paths(source):
        layout = layout_for(source[0], study.schema, study.layout)
        return read(source, layout, study.schema.target.name), layout
    raw = source if isinstance(source, Sparse) else data_of(source, study.schema)
    return raw, study.layout or CSV


def _paths(source: Any) -> Any:
    return (Path(source),) if isinstance(source, str | Path) else source


def _are_paths(source: Any) -> bool:
    return isinstance(source, tuple) and bool(source) and all(isinstance(each, Path) for each in source)


def _stamps(paths: Sequence[Path]) -> tuple[tuple[int, int], ...]:
    """What changes with a file. One that is not there is named with its folder: a study's paths are from its own."""
    for path in paths:
        if not path.is_file():
            raise StudyError(f"{path}: there is no such file")
    return tuple((found.st_mtime_ns, found.st_size) for found in (path.stat() for path in paths))


@lru_cache(maxsize=4)
def _from_files(paths: tuple[Path, ...], stamps: tuple[tuple[int, int], ...], layout: Layout, schema: Schema) -> Read:
    """Read once for all rows of a table of experiments."""
    raw = read(paths, layout, schema.target.name)
    try:
        return Read.of(raw, schema, layout)
    except SchemaError as error:  # one cell of perhaps many
        raise SchemaError(f"{error}. All that does not fit, at once: parley schema diff STUDY.toml FILE") from None


def _rows(data: Data, schema: Schema) -> tuple[bytes, ...]:
    """By whose record it is, or by the values of its features, as an estimator counts them."""
    if isinstance(data, Sparse):
        ends = zip(data.starts, data.starts[1:], strict=False)
        return SPENDING.digests(data.columns[a:b].tobytes() + data.values[a:b].tobytes() for a, b in ends)
    if isinstance(data, Dense):
        return SPENDING.digests(rows_of(list(data.values.T), len(data.values)))
    assert not isinstance(schema.features, Uniform)
    names = [each.name for each in schema.features] if schema.unit is None else [schema.unit]
    return SPENDING.digests(rows_of([data.columns[name] for name in names], data.count))


def together(sets: Sequence[Records]) -> Records:
    """All rows, for evaluation: whose they are is left out."""
    first = sets[0].rows
    if isinstance(first, SparseRows):
        columns, values = (
            np.concatenate([getattr(each.rows, what) for each in sets]) for what in ("columns", "values")
        )
        rows: Rows = SparseRows.of(columns, values, first.bits, first.dimension)
    else:
        assert isinstance(first, DenseRows)
        rows = DenseRows.of(np.concatenate([each.rows.values for each in sets]), first.bits)  # type: ignore[attr-defined]
    return Records(rows, np.concatenate([each.targets for each in sets]), row_bound=sets[0].row_bound)
