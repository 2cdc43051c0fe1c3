"""The protocol against the clear-text reference, lane by lane and bit by bit, and what may differ between runs."""

import functools
from typing import Any

import numpy as np
import pytest

from parley.mpc.channel import Channel
from parley.mpc.kernels import kernels
from parley.mpc.law import DITHER_BITS
from parley.mpc.randomness import Csprng
from parley.mpc.reference import Lane, Outcome, sample
from parley.mpc.sampler import Batch
from parley.mpc.session import Session
from parley.mpc.steps import Steps
from parley.mpc.tables import Cover, Precision, Tables, load
from tests.support.two import dealt_sampler, run_both, run_steps

PRESETS: list[tuple[Cover, Precision]] = [
    ("strips", "standard"), ("strips", "high"), ("rectangle", "standard"), ("rectangle", "high"),
]  # fmt: skip


def lanes_of(tables: Tables, a: Batch, b: Batch) -> list[Lane]:
    """Reconstruct every lane's random choices from both servers' shares, checking that one-hot vectors are."""

    def one_hot(x: Any, y: Any) -> Any:
        bits = np.unpackbits(x ^ y, axis=1, bitorder="little")
        assert (bits.sum(axis=1) == 1).all()
        return bits.argmax(axis=1)

    def number(x: Any, y: Any) -> Any:
        bits = (x ^ y).astype(np.int64)
        return (bits << np.arange(len(bits))[:, None]).sum(axis=0)

    chosen = a.multiplexed ^ b.multiplexed
    assert (chosen.sum(axis=0) <= 1).all()
    quarter = chosen[0] * 1 + chosen[1] * 2 + chosen[2] * 3
    level = a.level ^ b.level
    assert (level.sum(axis=0) == 1).all()
    index = one_hot(a.index, b.index) + 512 * quarter.astype(np.int64)
    columns = zip(
        index, one_hot(a.tail_index, b.tail_index), level.argmax(axis=0), number(a.positions, b.positions),
        number(a.heights, b.heights), (a.signs ^ b.signs).astype(bool), strict=True,
    )  # fmt: skip
    return [Lane(int(i), int(t), int(v), int(m), int(u), bool(s)) for i, t, v, m, u, s in columns]


def compare(tables: Tables, a: Batch, b: Batch) -> list[Outcome]:
    lanes = lanes_of(tables, a, b)
    expected = [sample(tables, lane) for lane in lanes]
    ring = np.uint64((1 << (tables.format.threshold_bits + 1)) - 1)
    rows = a.row ^ b.row
    for i, lane in enumerate(lanes):
        row = tables.head[lane.index]
        if tables.field(row, "flag"):
            flagged = row.copy()
            row = tables.tail[lane.level][lane.tail_index] ^ flagged
        assert (rows[i] == row).all()
    assert ((a.threshold + b.threshold) & ring).tolist() == [outcome.threshold for outcome in expected]
    assert (a.ratio + b.ratio).view(np.int64).tolist() == [outcome.ratio for outcome in expected]
    assert (a.accepted == b.accepted).all()
    assert a.accepted.tolist() == [int(outcome.accepted) for outcome in expected]
    assert (a.product + b.product).view(np.int64).tolist() == [outcome.sample for outcome in expected]
    return expected


@pytest.mark.parametrize(("cover", "precision"), PRESETS)
def test_every_internal_value_of_4096_lanes_equals_the_reference(cover: Cover, precision: Precision) -> None:
    tables = load(cover, precision)
    a, b = run_steps(lambda role: dealt_sampler(role, tables).view(4096))
    expected = compare(tables, a, b)
    accepted = np.mean([outcome.accepted for outcome in expected])
    probability = 0.99475 if cover == "strips" else 0.73057
    assert abs(accepted - probability) < 5 * (probability * (1 - probability) / 4096) ** 0.5  # false alarm 6e-7


def test_every_internal_value_over_real_transfers_equals_the_reference() -> None:
    tables = load("strips", "standard")

    def end(role: int, channel: Channel) -> Batch:
        session = Session(channel, role, tables, Csprng(bytes([role + 3]) * 32))
        channel.next_batch()
        return channel.run(session.sampler.view(4096))

    a, b = run_both(end)
    compare(tables, a, b)


def test_baseline_and_wide_kernels_work_together() -> None:
    if kernels().variant == "baseline":
        pytest.skip("this processor runs the baseline only")
    tables = load("strips", "standard")

    def end(role: int, channel: Channel) -> Batch:
        session = Session(channel, role, tables, native=kernels(("baseline", "wide")[role]))
        channel.next_batch()
        return channel.run(session.sampler.view(512))

    a, b = run_both(end)
    compare(tables, a, b)


@pytest.mark.parametrize(("cover", "precision"), PRESETS)
def test_slots_are_counted_right(cover: Cover, precision: Precision) -> None:
    """A batch gets exactly the transfers it uses: one slot less would be refused by Gates.take."""
    tables = load(cover, precision)
    sampler = dealt_sampler(0, tables)
    used = []

    def end(role: int, channel: Channel) -> None:
        own = dealt_sampler(role, tables)
        original = own._lanes

        def counting(gates: Any) -> Any:
            result = yield from original(gates)
            used.append(gates.slots_used)
            return result

        own._lanes = counting  # type: ignore[method-assign]
        channel.run(own.batch(2048))

    run_both(end)
    assert used == [sampler.slots()] * 2


def test_samples_are_the_product_plus_two_small_dithers() -> None:
    tables = load("strips", "standard")
    scale = tables.format.scale_bits
    a, b = run_steps(lambda role: dealt_sampler(role, tables).view(8192))
    x, y = run_steps(lambda role: dealt_sampler(role, tables).batch(8192))
    clear = (a.product + b.product)[a.accepted.astype(bool)].view(np.int64)
    dither = (x + y).view(np.int64) - clear
    width = 1 << (scale - DITHER_BITS)
    assert (np.abs(dither) <= 2 * width).all()
    # Four independent uniforms of this width: variance width^2 / 3 within 5 deviations of 8,100 samples.
    relative = dither.astype(np.float64) / width
    assert abs(relative.mean()) < 5 * (1 / 3 / len(dither)) ** 0.5
    assert abs(relative.var() * 3 - 1) < 5 * (2 / len(dither)) ** 0.5


def _view(tables: Tables, lanes: int, role: int) -> Steps[Batch]:
    return dealt_sampler(role, tables).view(lanes)


def test_one_lane_and_odd_counts_work() -> None:
    tables = load("strips", "standard")
    for lanes in (1, 17):
        a, b = run_steps(functools.partial(_view, tables, lanes))
        assert len(a.accepted) == -(-lanes // 16) * 16
        compare(tables, a, b)


def test_exchanges_do_not_depend_on_the_batch() -> None:
    tables = load("strips", "standard")
    counts = set()
    for lanes in (16, 2048):

        def end(role: int, channel: Channel, lanes: int = lanes) -> int:
            channel.run(dealt_sampler(role, tables).batch(lanes))
            return channel.traffic.exchanges

        counts |= set(run_both(end))
    assert counts == {16}
