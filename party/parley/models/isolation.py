"""Whether a record's numbers are its own: one record of a chunk is made hostile, and all others must stay as they were.

To the bit, and in every way that is in use here: this device, these threads, this chunk, this version of torch. The
exact sum's claim rests on it: what one record does to another's gradient no clip can bound.
"""

import itertools
from dataclasses import replace

import torch

from parley.models.chunks import ANY, FORWARD_ROWS, Chunks
from parley.models.losses import Tensor
from parley.models.public_rows import public_point, public_rows

HOSTILE = {
    "nan": float("nan"),
    "infinite": float("inf"),
    "minus infinite": -float("inf"),
    "huge": 1e30,
    "below the normal range": 1e-40,
    "zero": 0.0,
    "out of range": -1e9,
}
FAR = 1e20
"""Times the public point: every activation overflows."""


def mixed(chunks: Chunks) -> str | None:
    """What a hostile record did to others; none where nothing changed."""
    point = torch.from_numpy(public_point(chunks.network)).to(chunks.network.device)
    for flat in (point.float(), (point * FAR).float()):
        for each in (_gradients_mixed(chunks, flat), _outcomes_mixed(chunks, flat)):
            if each is not None:
                return each
    return None


def place_matters(chunks: Chunks) -> bool:
    """Whether a record's gradient differs, in its last bits, with its place in a chunk, which is drawn."""
    network, size = chunks.network, chunks.size
    inputs, targets = public_rows(network, size)
    flat = network.flat(public_point(network))
    here, there = (torch.empty(size, network.dimension, device=network.device) for _ in range(2))
    chunks.gradients(flat, inputs, targets, here)
    chunks.gradients(flat, inputs.flip(0), targets.flip(0), there)
    return not _same(here, there.flip(0))


def _gradients_mixed(chunks: Chunks, flat: Tensor) -> str | None:
    network, size = chunks.network, chunks.size
    inputs, targets = public_rows(network, size)
    want, got = (torch.empty(size, network.dimension, device=network.device) for _ in range(2))
    chunks.gradients(flat, inputs, targets, want)
    for (name, value), place in itertools.product(HOSTILE.items(), _places(size)):
        sound = chunks.gradients(flat, _with(inputs, place, value), targets, got)
        others = [row for row in range(size) if row != place]
        if not sound[others].all() or not _same(want[others], got[others]):
            return f"a record that is {name} changes the gradients of the records beside it"
    chunks.gradients(flat, inputs, targets, got)
    return None if _same(want, got) else "a hostile record changes the gradients of records after it: it is kept"


def _outcomes_mixed(chunks: Chunks, flat: Tensor) -> str | None:
    """In chunks of public rows and in those of records."""
    for rows in sorted({chunks.size, FORWARD_ROWS}):
        failures = None if rows == FORWARD_ROWS else ANY
        wrong = _outcomes_of_mixed(replace(chunks, failures=failures), flat, rows)
        if wrong is not None:
            return wrong
    return None


def _outcomes_of_mixed(chunks: Chunks, flat: Tensor, rows: int) -> str | None:
    inputs, targets = public_rows(chunks.network, rows)
    want = [torch.from_numpy(each) for each in chunks.outcomes(flat, inputs, targets)]
    for (name, value), place in itertools.product(HOSTILE.items(), _places(rows)[-1:]):
        found = chunks.outcomes(flat, _with(inputs, place, value), targets)
        others = [row for row in range(rows) if row != place]
        if not all(_same(a[others], torch.from_numpy(b)[others]) for a, b in zip(want, found, strict=True)):
            return f"a record that is {name} changes the scores of the records beside it"
    return None


def _places(size: int) -> list[int]:
    """At both ends, where a processor's vectors begin and end, and inside."""
    return sorted({0, size // 2, size - 1})


def _with(inputs: Tensor, place: int, value: float) -> Tensor:
    found = inputs.clone()
    found[place] = value
    return found


def _same(one: Tensor, other: Tensor) -> bool:
    """Bit for bit; a number that is none is like any other such, for the kernel drops both."""
    a, b = (torch.nan_to_num(each, nan=7e7).contiguous().view(torch.int32) for each in (one, other))
    return bool(torch.equal(a, b))
