"""The protocol against the clear-text reference, lane by lane and bit by bit, and what may differ between runs."""

import functools
from typing import Any

import numpy as np
import pytest

from parley.mpc.channel import Channel
from parley.mpc.kernels import kernels
from parley.mpc.law import DITHER_BITS
from parley.mpc.sampler import Batch
from parley.mpc.session import Session
from parley.mpc.steps import Steps
from parley.mpc.tables import Cover, Precision, Tables, load
from tests.support.lanes import PRESETS, compare
from tests.support.two import dealt_sampler, run_both, run_steps


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
