"""A module's answer is the sum of each record's clipped gradient, exact and of bounded length; records stay apart."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from parley.learning.encoding import Scale
from parley.learning.engine import Here
from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.models import verified_import
from parley.models.module_spec import ModuleSpec
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Terms
from parley.privacy.sampling import Batch
from tests.support.own_package import NAME, installed, schema_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow  # in CI, torch is installed for the slow suite alone
if TYPE_CHECKING:
    from parley.models.module import TorchModel

TERMS = Terms(0.5, 0.05, 0.5, 0.5)
ONE = Terms(0.0, 1.0, 1.0, 0.5)
FAMILIES = ("dense", "convolutional", "grouped", "gated", "attention", "words", "lora")
RECORDS = 37


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    installed(tmp_path, monkeypatch)
    yield
    verified_import._close(NAME)


def opened(name: str, chunk: int = 8, checked: bool = False) -> "TorchModel":
    from parley.models.module import TorchModel

    schema = schema_of(3, 20 if name == "words" else 0)
    spec = ModuleSpec.of({"kind": f"torch:{NAME}.nets:{name}", "input": [3, 4]}, schema)
    return TorchModel.open(spec, 3, chunk=chunk, checked=checked)


def records(name: str) -> Records:
    rng = np.random.default_rng(5)
    if name == "words":
        rows = DenseRows.of(rng.integers(0, 20, (RECORDS, 12)).astype(np.int16), 0)
    else:
        rows = DenseRows.of(rng.integers(-256, 257, (RECORDS, 12)).astype(np.int16), 8)
    return Records(rows, rng.integers(0, 3, RECORDS).astype(float))


def points(model: "TorchModel") -> tuple[Any, Any]:
    theta = model.initial(np.array([77], np.uint64))
    rng = np.random.default_rng(6)
    theta = theta + 0.3 * rng.standard_normal(len(theta))
    return theta, theta + 1e-2 * rng.standard_normal(len(theta))


def scale_of(terms: Terms) -> Scale:
    return Scale.of(Lattice(2 * terms.bound, 20, 41), terms.bound, RECORDS)


def clipped(rows: Any, norm: float) -> Any:
    return rows * np.minimum(1.0, norm / np.linalg.norm(rows, axis=1))[:, None]


@pytest.mark.parametrize("name", FAMILIES)
def test_an_answer_is_the_sum_of_what_each_record_alone_gives(name: str) -> None:
    """Against autograd on single records, with a batch that ends in the middle of a chunk, and absent ones in it."""
    model, held = opened(name), records(name)
    theta, before = points(model)
    block = held.rows.take(np.arange(RECORDS))
    present = np.arange(RECORDS) % 5 != 0
    rows = torch.from_numpy((block.dense() * 2.0**-block.bits).astype(np.float32)).view(-1, 3, 4)
    alone = []
    for point in (theta, before):
        net = model.network.net
        torch.nn.utils.vector_to_parameters(
            torch.from_numpy(point.astype(np.float32)), [p for p in net.parameters() if p.requires_grad]
        )
        trained = [p for p in net.parameters() if p.requires_grad]
        alone.append(
            np.stack(
                [
                    torch.cat(
                        [
                            each.flatten()
                            for each in torch.autograd.grad(
                                torch.nn.functional.cross_entropy(
                                    net(rows[row : row + 1]), torch.tensor([int(held.targets[row])])
                                ),
                                trained,
                            )
                        ]
                    )
                    .double()
                    .numpy()
                    for row in range(RECORDS)
                ]
            )
        )
    assert np.allclose(model.gradients(block, held.targets, theta), alone[0], rtol=1e-4, atol=1e-6)
    assert np.allclose(
        model.gradient_norms(block, held.targets, theta), np.linalg.norm(alone[0], axis=1), rtol=1e-4, atol=1e-6
    )
    for terms, at in ((ONE, (theta,)), (TERMS, (theta, before))):
        scale = scale_of(terms)
        wanted = terms.gradient_weight * clipped(alone[0], terms.gradient_norm)
        if len(at) == 2:
            wanted += terms.difference_weight * clipped(alone[0] - alone[1], terms.difference_norm)
        wanted = wanted[present].sum(axis=0)
        got = model.contribution(block, held.targets, present, at, terms, scale)
        assert got.dtype == np.int64
        assert np.linalg.norm(got * scale.step - wanted) <= 1e-3 * np.linalg.norm(wanted)


def test_losses_and_scores_are_the_modules_own() -> None:
    model, held = opened("convolutional"), records("convolutional")
    theta, _ = points(model)
    block = held.rows.take(np.arange(RECORDS))
    scores, losses = model.scores(block, theta), model.losses(block, held.targets, theta)
    assert scores.shape == (RECORDS, 3)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    assert np.allclose(losses, -np.log(p[np.arange(RECORDS), held.targets.astype(int)]), atol=1e-5)


@pytest.mark.parametrize("name", ["dense", "grouped", "gated", "words"])
@pytest.mark.parametrize("hostile", [float("nan"), float("inf"), 1e38, 1e-42, -1e9])
def test_no_record_moves_another_and_none_moves_the_sum_by_more_than_the_bound(name: str, hostile: float) -> None:
    """Whatever is in one record's row, were it possible to get it there past the schema."""
    model, held = opened(name), records(name)
    theta, before = points(model)
    scale = scale_of(TERMS)
    block = held.rows.take(np.arange(RECORDS))
    inputs = model._inputs(block)
    one = inputs.clone()
    one[13] = hostile
    sums = []
    for rows in (inputs, one):
        model._inputs = lambda block, rows=rows: rows  # type: ignore[method-assign,misc]
        sums.append(model.contribution(block, held.targets, np.ones(RECORDS, bool), (theta, before), TERMS, scale))
        others = np.arange(RECORDS) != 13
        sums.append(model.contribution(block, held.targets, others, (theta, before), TERMS, scale))
    assert np.array_equal(sums[1], sums[3]), "all others are what they were, to the integer"
    for whole, rest in ((sums[0], sums[1]), (sums[2], sums[3])):
        own = [int(each) for each in whole - rest]
        assert sum(each * each for each in own) <= scale.limit**2
    # An index that no table has makes the module raise: that record is nothing, and no other is lost.
    if name == "words" and hostile != 1e-42:
        assert np.array_equal(sums[2], sums[3])


def test_records_that_make_the_module_raise_are_dropped_one_by_one() -> None:
    model, held = opened("words"), records("words")
    theta, _ = points(model)
    block = held.rows.take(np.arange(RECORDS))
    inputs = model._inputs(block)
    bad = [0, 7, 8, 9, 36]
    inputs[bad] = 1e6
    model._inputs = lambda block: inputs  # type: ignore[method-assign]
    rows = model.gradients(block, held.targets, theta)
    assert np.flatnonzero(np.isnan(rows).any(axis=1)).tolist() == bad
    losses = model.losses(block, held.targets, theta)
    assert np.flatnonzero(np.isnan(losses)).tolist() == bad
    good = np.setdiff1d(np.arange(RECORDS), bad)
    everyone = model.contribution(block, held.targets, np.ones(RECORDS, bool), (theta,), ONE, scale_of(ONE))
    present = np.isin(np.arange(RECORDS), good)
    assert np.array_equal(everyone, model.contribution(block, held.targets, present, (theta,), ONE, scale_of(ONE)))


@pytest.mark.parametrize("huge", [1e30, 3e38, 1e300, float("inf"), float("nan")])
def test_at_any_point_that_a_coordinator_may_choose_an_answer_is_given(huge: float) -> None:
    model, held = opened("convolutional"), records("convolutional")
    block = held.rows.take(np.arange(RECORDS))
    point = np.full(model.dimension, huge)
    got = model.contribution(block, held.targets, np.ones(RECORDS, bool), (point,), ONE, scale_of(ONE))
    assert sum(int(each) ** 2 for each in got) <= (RECORDS * scale_of(ONE).limit) ** 2
    assert model.losses(block, held.targets, point).shape == (RECORDS,)


def test_a_patients_records_are_clipped_as_one() -> None:
    model, held = opened("convolutional"), records("convolutional")
    theta, before = points(model)
    members = np.full((12, 4), -1)
    for row in range(RECORDS):
        members[row % 12, row // 12] = row
    members[3] = -1
    members[3, 1] = 36
    units = Records(held.rows, held.targets, "patient", members)
    present = np.arange(12) != 5
    terms, scale = TERMS, scale_of(TERMS)
    lattice = Lattice(2 * terms.bound, 20, 41)
    got = Here(units, model).gradients(Batch(np.arange(12), present), (theta, before), terms, lattice, scale)
    block = held.rows.take(np.arange(RECORDS))
    rows = [model.gradients(block, held.targets, point) for point in (theta, before)]
    sums = [np.stack([each[unit[unit >= 0]].sum(axis=0) for unit in members]) for each in rows]
    wanted = terms.gradient_weight * clipped(sums[0], terms.gradient_norm)
    wanted += terms.difference_weight * clipped(sums[0] - sums[1], terms.difference_norm)
    wanted = wanted[present].sum(axis=0)
    assert np.linalg.norm(got * scale.step - wanted) <= 1e-3 * np.linalg.norm(wanted)
    alone = Records(held.rows, held.targets, "patient", np.arange(RECORDS)[:, None])
    batch = Batch(np.arange(RECORDS), np.ones(RECORDS, bool))
    assert np.array_equal(
        Here(alone, model).gradients(batch, (theta,), ONE, lattice, scale_of(ONE)),
        Here(held, model).gradients(batch, (theta,), ONE, lattice, scale_of(ONE)),
    ), "of patients with one record each it is the same sum"


def test_a_patient_with_a_record_that_raises_is_nothing_and_no_other_is_moved() -> None:
    model, held = opened("words"), records("words")
    theta, _ = points(model)
    members = np.arange(36).reshape(12, 3)
    block = held.rows.take(np.arange(RECORDS))
    inputs = model._inputs(block)
    ask = (held.targets, members, np.ones(12, bool), (theta,), ONE, scale_of(ONE))
    others = (held.targets, members, np.arange(12) != 4, (theta,), ONE, scale_of(ONE))
    rest = model.unit_contribution(block, *others)
    assert not np.array_equal(model.unit_contribution(block, *ask), rest)
    inputs[13] = -5
    model._inputs = lambda block: inputs  # type: ignore[method-assign]
    assert np.array_equal(model.unit_contribution(block, *ask), rest)


def test_a_record_that_raises_stands_in_for_none_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places of a patient with fewer records were filled with the first of all, which then raised in each of them."""
    from parley.models.routes import Vmapped

    model, held = opened("words"), records("words")
    theta, _ = points(model)
    members = np.full((36, 4), -1)
    members[:, 0] = np.arange(36)
    passes = []
    for name in ("gradients", "outcomes"):
        original = getattr(Vmapped, name)

        def counted(*each: Any, run: Any = original) -> Any:
            passes.append(len(each))
            return run(*each)

        monkeypatch.setattr(Vmapped, name, counted)
    lattice, batch = Lattice(2 * ONE.bound, 20, 41), Batch(np.arange(36), np.ones(36, bool))
    counts = []
    for first in (3, 30_000):
        values = held.rows.take(np.arange(RECORDS)).dense().astype(np.int16)
        values[0, 0] = first
        here = Here(Records(DenseRows.of(values, 0), held.targets, "patient", members), model)
        asks: list[Callable[[Here], Any]] = [
            lambda engine: engine.gradients(batch, (theta,), ONE, lattice, scale_of(ONE)),
            lambda engine: engine.norms(batch, theta, 1.0, scale_of(ONE)),
            lambda engine: engine.losses(batch, (theta, theta), 1.0, lattice, scale_of(ONE)),
        ]
        for ask in asks:
            passes.clear()
            ask(here)
            counts.append(len(passes))
    for usual, more in zip(counts[:3], counts[3:], strict=True):
        assert usual < more <= usual + 2 * (2 * 8 + 1), "one is looked for, by halves, at each point"


def test_what_is_absent_is_not_looked_for_and_a_search_is_of_chunks_that_a_slot_has_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An absent unit only fills a place. Losses were computed 256 at once, and so was a search among them."""
    from parley.models.routes import Vmapped

    model, held = opened("words", chunk=4), records("words")
    theta, _ = points(model)
    values = held.rows.take(np.arange(RECORDS)).dense().astype(np.int16)
    values[5, 0] = 30_000
    here = Here(Records(DenseRows.of(values, 0), held.targets), model)
    passes: list[int] = []
    for name in ("gradients", "outcomes"):
        original = getattr(Vmapped, name)

        def counted(route: Any, flat: Any, inputs: Any, *more: Any, run: Any = original) -> Any:
            passes.append(len(inputs))
            return run(route, flat, inputs, *more)

        monkeypatch.setattr(Vmapped, name, counted)
    lattice, counts = Lattice(2 * ONE.bound, 20, 41), []
    for present in (np.arange(36) != 5, np.ones(36, bool)):
        batch = Batch(np.arange(36), present)
        for at, ask in ((1, here.gradients), (1, here.norms), (2, here.losses)):
            passes.clear()
            model.chunks.failures = at
            _asked(ask, batch, theta, lattice)
            assert set(passes) == {4}
            counts.append(len(passes))
    assert counts[:3] == [9, 9, 18], "nobody is looked for"
    assert counts[3:] == [9 + 5, 9 + 5, 2 * (9 + 5)], "the half of two, one of it, and all but it once more"


def _asked(ask: Callable[..., Any], batch: Batch, theta: Any, lattice: Lattice) -> None:
    told: dict[str, tuple[Any, ...]] = {
        "gradients": ((theta,), ONE, lattice), "norms": (theta, 1.0), "losses": ((theta, theta), 1.0, lattice),
    }  # fmt: skip
    ask(batch, *told[ask.__name__], scale_of(ONE))


@pytest.mark.parametrize("name", ["lora", "words", "evaluated", "grouped"])
def test_a_state_dict_has_all_that_the_users_own_function_loads(name: str, tmp_path: Path) -> None:
    model, held = opened(name), records(name)
    theta, _ = points(model)
    torch.save(model.state_dict(theta), tmp_path / "model.pt")
    net = verified_import.imported(model.network.files, model.spec.kind)()
    if name == "evaluated":
        net.eval()
    net.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    block = held.rows.take(np.arange(RECORDS))
    with torch.no_grad():
        scores = net(model._inputs(block)).numpy()
    assert np.allclose(scores, model.scores(block, theta), atol=1e-5)


def test_the_caller_s_threads_and_denormals_are_as_they_were() -> None:
    model, held = opened("dense"), records("dense")
    theta, _ = points(model)
    before = torch.get_num_threads()
    model.losses(held.rows.take(np.arange(4)), held.targets[:4], theta)
    assert torch.get_num_threads() == before
    assert float(np.float32(1e-40) * np.float32(1.0)) != 0.0


@pytest.mark.parametrize("name", ["dense", "convolutional"])
def test_whoever_is_excluded_has_no_influence_on_a_modules_answer(name: str) -> None:
    """Whatever the row holds: not by a gradient, and not by being counted among norms or losses."""
    from parley.learning.contributor import Contributor, Encoding, Query
    from parley.learning.records import nulled
    from parley.privacy.clipping import GradientClip
    from parley.privacy.mechanism import Cohort, Mechanism
    from parley.privacy.randomness import SystemRandomness
    from parley.privacy.sampling import FixedSize

    model, held = opened(name), records(name)
    null = np.arange(RECORDS) == 5
    mechanism = Mechanism((Cohort("a", FixedSize(RECORDS, RECORDS)),), GradientClip(1.0), 20.0, 2)
    encoding = Encoding.of(mechanism, 41, model.largest_limit)
    one, two = points(model)
    asked = (Query(0, (one,)), Query(0, (one, two), "losses"), Query(0, (one,), "norms", 4.0))
    found = []
    for value in (-256, 256):
        rows = held.rows.values.copy()  # type: ignore[attr-defined]
        rows[5] = value
        targets = np.where(null, 0.0, held.targets)
        mine = Records(nulled(DenseRows.of(rows, held.rows.bits), null), targets, null=null)
        answers = [Contributor("a", mine, model, encoding, SystemRandomness()).contribution(each) for each in asked]
        found.append([each.tolist() for each in answers])
    assert found[0] == found[1]
    others = np.delete(np.arange(RECORDS), 5)
    scale = encoding.scale("a", 0)
    alone = Here(held.select(others), model)
    batch = Batch(np.arange(RECORDS - 1), np.ones(RECORDS - 1, bool))
    assert found[0][2] == alone.norms(batch, one, 4.0, scale).tolist()
