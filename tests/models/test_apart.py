"""A user's module in a process of its own: the same integers as here, at moments that are public, and lost for good."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parley.learning.encoding import Scale
from parley.learning.engine import Here
from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.models.apart import Apart
from parley.models.child import ModuleLostError, ModuleRefusedError
from parley.models.module_spec import ModuleSpec
from parley.models.registry import open_module
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Terms
from parley.privacy.sampling import Batch
from tests.support.own_modules import CLASSES, OwnPackage, own_package, records

pytestmark = pytest.mark.slow
TERMS, LATTICE = Terms(0.5, 0.25, 0.5, 1.0), Lattice(1.0, 12, 41)
SCALE = Scale(LATTICE.step, 1 << 12)
BATCH = Batch(np.array([3, 1, 4, 1, 5, 9, 2, 6]), np.array([1, 1, 1, 0, 1, 1, 0, 1], bool))
Start = Callable[[ModuleSpec], Apart]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnPackage:
    return own_package(tmp_path, monkeypatch)


@pytest.fixture
def start() -> Iterator[Start]:
    pytest.importorskip("torch")
    made: list[Apart] = []

    def started(spec: ModuleSpec) -> Apart:
        made.append(Apart.start(spec, CLASSES))
        return made[-1]

    yield started
    for each in made:
        each.close()


def points(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    return rng.normal(size=dimension), rng.normal(size=dimension)


def test_it_answers_what_this_process_would_and_is_a_model_of_public_rows(package: OwnPackage, start: Start) -> None:
    spec, held = package.spec(), records()
    apart, model = start(spec), open_module(spec, CLASSES)
    assert (apart.dimension, apart.check().route, apart.records_per_second > 0) == (53, model.route, True)
    here, at = Here(held, model), points(53)
    apart.hold(held)
    wanted = here.gradients(BATCH, at, TERMS, LATTICE, SCALE)
    assert np.abs(wanted).max() > 0
    began = time.monotonic()
    assert np.array_equal(apart.gradients(BATCH, at, TERMS, LATTICE, SCALE), wanted)
    took = time.monotonic() - began
    assert took >= apart.slots.slot(len(BATCH.indices), 2)
    assert apart.busy_seconds is not None
    assert 0 < apart.busy_seconds < took, "what it was at work, for its operator"
    assert np.array_equal(apart.norms(BATCH, at[0], 4.0, SCALE), here.norms(BATCH, at[0], 4.0, SCALE))
    several = (*at, at[0] / 2)
    model.chunks.failures = 1 << 40  # in chunks as records are
    assert np.array_equal(
        apart.losses(BATCH, several, 0.5, LATTICE, SCALE), here.losses(BATCH, several, 0.5, LATTICE, SCALE)
    )
    public, block, words = apart.model(), held.rows.take(np.arange(7)), np.arange(53, dtype=np.uint64)
    assert np.array_equal(public.initial(words), model.initial(words))
    for name in ("scores", "losses", "gradients", "gradient_norms"):
        told = (block, at[0]) if name == "scores" else (block, held.targets[:7], at[0])
        assert np.array_equal(getattr(public, name)(*told), getattr(model, name)(*told)), name
    with pytest.raises(ModuleLostError):
        public.contribution(block, held.targets[:7], np.ones(7, bool), at, TERMS, SCALE)


def test_units_of_several_records_are_clipped_whole(package: OwnPackage, start: Start) -> None:
    spec, flat = package.spec(), records()
    members = np.array([[0, 1, -1], [2, -1, -1], [3, 4, 5], [6, 7, -1]])
    held = Records(flat.rows, flat.targets, "patient", members)
    apart, batch = start(spec), Batch(np.array([2, 0, 3]), np.array([True, True, False]))
    apart.hold(held)
    wanted = Here(held, open_module(spec, CLASSES)).gradients(batch, points(53), TERMS, LATTICE, SCALE)
    assert np.array_equal(apart.gradients(batch, points(53), TERMS, LATTICE, SCALE), wanted)


@pytest.mark.parametrize(
    ("function", "said"),
    [("fails", "no such file"), ("mixes", "GroupNorm"), ("nothing", "nothing"), ("exits", "ended")],
)
def test_what_cannot_be_run_is_refused_before_there_is_a_record(
    package: OwnPackage, start: Start, function: str, said: str
) -> None:
    with pytest.raises(ModuleLostError if function == "exits" else ModuleRefusedError, match=said):
        start(package.spec(function))


def test_bytes_that_are_not_the_digest_s_are_not_imported(package: OwnPackage, start: Start, tmp_path: Path) -> None:
    spec = package.spec()
    note = tmp_path / "imported"
    with (package.folder / "nets.py").open("a") as file:
        file.write(f"\nopen({str(note)!r}, 'w').close()\n")
    with pytest.raises(ModuleRefusedError, match="sha256:"):
        start(spec)
    assert not note.exists()
    start(package.spec())
    assert note.exists()


def test_a_package_that_changes_while_it_is_used_changes_nothing(package: OwnPackage, start: Start) -> None:
    apart, held = start(package.spec()), records()
    apart.hold(held)
    before = apart.gradients(BATCH, points(53), TERMS, LATTICE, SCALE)
    (package.folder / "nets.py").write_text("raise SystemExit\n")
    assert np.array_equal(apart.gradients(BATCH, points(53), TERMS, LATTICE, SCALE), before)


@pytest.mark.parametrize("deed", ["crash", "exit", "hang"])
def test_a_module_that_crashes_or_hangs_is_lost_for_good_at_the_end_of_a_slot(
    package: OwnPackage, start: Start, deed: str
) -> None:
    apart = start(package.spec(flag=str(package.flag), does=deed))
    apart.hold(records())
    at = points(53)
    assert np.abs(apart.gradients(BATCH, at, TERMS, LATTICE, SCALE)).max() > 0
    apart.hold(records(), patience=1.0)
    package.flag.touch()
    began, slot = time.monotonic(), apart.slots.slot(len(BATCH.indices), 2)
    with pytest.raises(ModuleLostError):
        apart.gradients(BATCH, at, TERMS, LATTICE, SCALE)
    assert time.monotonic() - began >= (1.0 if deed == "hang" else slot)
    package.flag.unlink()
    assert not apart.alive
    with pytest.raises(ModuleLostError):
        apart.gradients(BATCH, at, TERMS, LATTICE, SCALE)


@pytest.mark.parametrize("deed", ["speak", "fork", "wait", "clock"])
def test_a_module_that_speaks_forks_or_waits_changes_no_answer(package: OwnPackage, start: Start, deed: str) -> None:
    apart = start(package.spec(flag=str(package.flag), does=deed))
    apart.hold(records())
    wanted = apart.gradients(BATCH, points(53), TERMS, LATTICE, SCALE)
    package.flag.touch()
    for _ in range(3):
        began = time.monotonic()
        found = apart.gradients(BATCH, points(53), TERMS, LATTICE, SCALE)
        assert time.monotonic() - began >= apart.slots.slot(len(BATCH.indices), 2)
        assert np.array_equal(found, wanted)


def test_a_record_that_makes_the_module_raise_counts_as_nothing_and_no_other_changes(
    package: OwnPackage, start: Start
) -> None:
    apart, held = start(package.spec("looked")), records()
    values = held.rows.take(np.arange(40)).dense().astype(np.uint8)
    values[:, 0] = np.arange(40) % 16  # an index of 0 to 3
    sound = Records(DenseRows.of(values, 4), held.targets)
    values = values.copy()
    values[4, 0] = 255  # 63, of a table of 4
    failing = replace(sound, rows=DenseRows.of(values, 4))
    at = points(apart.dimension)
    apart.hold(sound)
    without = Batch(BATCH.indices, BATCH.present & (BATCH.indices != 4))
    wanted = apart.gradients(without, at, TERMS, LATTICE, SCALE)
    assert not np.array_equal(apart.gradients(BATCH, at, TERMS, LATTICE, SCALE), wanted)
    apart.hold(failing)
    assert np.array_equal(apart.gradients(BATCH, at, TERMS, LATTICE, SCALE), wanted)


def test_more_records_that_raise_than_a_slot_has_time_to_find_leave_the_run(package: OwnPackage, start: Start) -> None:
    """Found one by one they would make answers late by as much as they are many, again and again."""
    apart, held = start(package.spec("looked")), records()
    values = held.rows.take(np.arange(40)).dense().astype(np.uint8)
    values[:, 0] = np.arange(40) % 16
    values[BATCH.indices[:2], 0] = 255
    apart.hold(replace(held, rows=DenseRows.of(values, 4)))
    with pytest.raises(ModuleLostError, match="TooManyFailError"):
        apart.gradients(BATCH, points(apart.dimension), TERMS, LATTICE, SCALE)
    assert not apart.alive


def test_points_that_overflow_are_answered(package: OwnPackage, start: Start) -> None:
    apart = start(package.spec())
    apart.hold(records())
    for size in (1e30, 1e38, 1e300):
        huge = size * points(53)[0]
        found = apart.gradients(BATCH, (huge, huge), TERMS, LATTICE, SCALE)
        assert np.square(found.astype(float)).sum() <= (BATCH.present.sum() * SCALE.limit) ** 2
