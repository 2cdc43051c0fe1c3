"""Lanes of the sampler beside the reference."""

from typing import Any

import numpy as np

from parley.mpc.reference import Lane, Outcome, sample
from parley.mpc.sampler import Batch
from parley.mpc.tables import Cover, Precision, Tables

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
