"""Builds the sampler's tables in arbitrary precision and writes them as data. Needs mpmath; the product does not.

    python -m parley.mpc.table_builder            # rewrites mpc/data/*.bin; the suite checks that nothing changes

Boxes are laid along u with equal areas per level. Inside a box, W interpolates H/u at the two Gauss-Legendre nodes,
so that mean(1/W) is mean(u)/H to fourth order in the width of the box, and T has the slope of h(u)/H there and its
exact mean: these are the two moments that the density depends on once it is smoothed over a few boxes
(docs/noise-law.md). What rounding to integers takes from one box is given to the next (`carry`), so that errors do
not add up along x.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from parley.mpc.tables import FORMATS, GO_ON, INDEX_BITS, Cover, Format, Precision, file_name

mp.mp.prec = 160

Number: TypeAlias = Any
"""An mpmath number: that library has no types."""
HEAD = 1 << INDEX_BITS
HANDED_OVER = 150
"""Rows of level 0 that hand over to level 1, in `strips`."""
START = mp.mpf("0.16")
"""Below this u the tail levels take over."""
AREA = mp.mpf("3.0760e-4")
"""Of a box of level 0, in `strips`: with it, the march from START ends near u = 0.98."""
TALLEST = mp.mpf(14)
"""H/u stays below this: W has four integer bits."""
WIDEST = mp.mpf("0.02")
"""Of a tail box, relative to u."""
SLACK = 1 + mp.mpf(2) ** -14
"""Boxes are this much taller than h, so that rounding T(m) up never meets its largest value."""
PEAK = mp.exp(mp.mpf(-1) / 2)
"""Where h has its maximum, sqrt(2/e)."""

TIP_SLACK = 1 + mp.mpf(2) ** -9


def height(u: Number) -> Number:
    """h(u) = 2 u sqrt(-ln u)."""
    return 2 * u * mp.sqrt(-mp.log(u)) if 0 < u < 1 else mp.mpf(0)


def area_left_of(u: Number) -> Number:
    """Integral of h from 0 to u: with s = -2 ln u it is an incomplete gamma function of order 3/2."""
    s = -2 * mp.log(u) if u > 0 else mp.inf
    root = mp.sqrt(s)
    return (mp.sqrt(mp.pi) / 2 * mp.erfc(root) + (root * mp.exp(-s) if u > 0 else 0)) / mp.sqrt(2)


@dataclass(frozen=True)
class Box:
    """[low, high] x [0, top]."""

    low: Number
    high: Number
    top: Number


def _solve(low: Number, area: Number, guess: Number) -> Number:
    """The u with (u - low) h(u) = area, on the rising side."""
    return mp.findroot(lambda u: (u - low) * height(min(u, PEAK)) - area, guess)


def march_up(area: Number, start: Number, count: int) -> Iterator[Box]:
    """Boxes of equal area from `start` towards u = 1, each as high as h on it."""
    low, wanted = start, area / SLACK
    for _ in range(count):
        high = low + wanted / height(low)
        if low < PEAK:  # h rises: the right edge is the highest, solve (high - low) h(high) = wanted
            high = _solve(low, wanted, high)
        yield Box(low, high, area / (high - low))
        low = high


def tip(area: Number, start: Number) -> Iterator[Box]:
    """Boxes from `start` to u = 1, where h falls like a square root: none spans more than about 0.004 of x = 2 sqrt(1
    - u).
    """
    low = start
    while low < 1:
        left = 1 - low
        # The line through a falling square root overshoots at the box's left end: leave room for that too.
        width = max(
            min(area / TIP_SLACK / height(low), max(mp.mpf("0.12") * left, mp.mpf("0.004") * mp.sqrt(left))),
            area / TALLEST,
        )
        if 1 - low - width < area / TALLEST:
            width = 1 - low
        yield Box(low, low + width, area / width)
        low += width


def march_down(area: Number, start: Number) -> Iterator[Box]:
    """Boxes from `start` towards u = 0, none wider than WIDEST of u, until W would not fit."""
    high = start
    while True:
        width = min(area / SLACK / height(high), WIDEST * high)
        if area / width > TALLEST * (high - width):
            return
        yield Box(high - width, high, area / width)
        high -= width


def tail_boxes(form: Format, area: Number, lower: Number, upper: Number, handed_over: Number) -> list[list[Box]]:
    """Boxes of each tail level: the tip and the first stretch below `lower` in level 1, then ever further down."""
    levels: list[list[Box]] = []
    rows = 1 << form.tail_bits
    mass, high = handed_over * area, lower
    for level in range(form.tail_levels):
        last = level == form.tail_levels - 1
        box_area = mass * (1 if last else mp.mpf(GO_ON - 1) / GO_ON) / rows
        boxes = list(tip(box_area, upper)) if level == 0 else []
        for box in march_down(box_area, high):
            if len(boxes) == rows:
                break
            remaining = box.high**2 * mp.sqrt(-mp.log(box.high))  # about the area of C left below this box
            if not last and high < lower and remaining <= mp.mpf("0.83") * mass / GO_ON:
                break
            if not last and level == 0 and remaining <= mp.mpf("0.83") * mass / GO_ON:
                break
            boxes.append(box)
            high = box.low
        levels.append(boxes)
        mass /= GO_ON
    return levels


def boxes_of(cover: Cover, form: Format) -> tuple[list[Box], list[list[Box]]]:
    """Level 0 and the tail levels. Level 0's rows beyond its boxes are the flagged ones."""
    if cover == "strips":
        head = list(march_up(AREA, START, HEAD - HANDED_OVER))
        return head, tail_boxes(form, AREA, START, head[-1].high, mp.mpf(HANDED_OVER))
    top = mp.sqrt(2 / mp.e)
    first, beyond = int(mp.nint(START * HEAD)), int(mp.nint(mp.mpf("0.98") * HEAD))
    head = [Box(mp.mpf(i) / HEAD, mp.mpf(i + 1) / HEAD, top) for i in range(first, beyond)]
    return head, tail_boxes(form, top / HEAD, head[0].low, head[-1].high, mp.mpf(HEAD - len(head)))


class Rounder:
    """Rounds a sequence of values that weigh `weight` each and hands each one's error on to the next."""

    def __init__(self) -> None:
        self.carry = mp.mpf(0)

    def round(self, value: Number, weight: Number, low: int, high: int) -> int:
        wanted = value + self.carry / weight
        rounded = min(max(int(mp.nint(wanted)), low), high)
        self.carry = min(max((wanted - rounded) * weight, -weight), weight)
        return rounded


NODES = [mp.mpf(1) / 2 - 1 / (2 * mp.sqrt(3)), mp.mpf(1) / 2 + 1 / (2 * mp.sqrt(3))]


def mean_rise(slope: int, position_bits: int) -> Number:
    """Mean over m of tables.rise: each bit of m is set in half of them."""
    return mp.mpf(sum(slope >> (position_bits - k) for k in range(position_bits))) / 2


def line(values: list[Number]) -> tuple[Number, Number]:
    """Mean and slope over [0, 1] of the line through the values at the two nodes."""
    return (values[0] + values[1]) / 2, (values[1] - values[0]) / (NODES[1] - NODES[0])


def row_of(box: Box, weight: Number, form: Format, threshold: Rounder, ratio: Rounder) -> int:
    """The row's bit fields as one integer."""
    at = [box.high - (box.high - box.low) * t for t in NODES]
    _, tau_slope = line([height(u) / box.top for u in at])
    tau_mean = (area_left_of(box.high) - area_left_of(box.low)) / ((box.high - box.low) * box.top)
    ratio_mean, ratio_slope = line([box.top / u for u in at])
    one, unit, bits = 1 << form.threshold_bits, 1 << form.ratio_fraction_bits, form.position_bits
    slope_limit = 1 << (form.threshold_slope_bits - 1)
    s = min(max(int(mp.nint(tau_slope * one)), -slope_limit), slope_limit - 1)
    d = int(mp.nint(ratio_slope * unit))
    if not 0 <= d < 1 << form.ratio_slope_bits:
        raise OverflowError(f"ratio slope {d} of box {box} does not fit {form.ratio_slope_bits} bits")
    # 0 <= T(m) <= 2^threshold_bits for every m: T is monotone enough that its two ends decide, but check all bits.
    rises = [sum((s >> (bits - k)) * (m >> k & 1) for k in range(bits)) for m in range(1 << bits)]
    low, high = -min(rises), min(one - 1, one - max(rises))
    t = threshold.round(tau_mean * one - mean_rise(s, bits), weight, low, high)
    q = ratio.round(ratio_mean * unit - mean_rise(d, bits), weight * ratio_mean**-2, 1, (1 << form.ratio_bits) - 1)
    fields = form.fields()
    row = t << fields["threshold"][0] | (s % (2 * slope_limit)) << fields["threshold_slope"][0]
    return row | q << fields["ratio"][0] | d << fields["ratio_slope"][0]


def build(cover: Cover, precision: Precision) -> NDArray[np.uint8]:
    """uint8[2048 + 2^tail_bits * tail_levels, 16]."""
    form = FORMATS[precision]
    tail_rows = 1 << form.tail_bits
    head, tail = boxes_of(cover, form)
    rows = [0] * (HEAD + tail_rows * form.tail_levels)
    for i in range(len(head), HEAD):
        rows[i] = 1 << form.fields()["flag"][0]
    handed_over = mp.mpf(HEAD - len(head)) / HEAD
    placed = [(box, i, mp.mpf(1) / HEAD) for i, box in enumerate(head)]
    for level, boxes in enumerate(tail):
        stay = 1 if level == form.tail_levels - 1 else mp.mpf(GO_ON - 1) / GO_ON
        weight = handed_over * mp.mpf(GO_ON) ** -level * stay / tail_rows
        placed += [(box, HEAD + tail_rows * level + i, weight) for i, box in enumerate(boxes)]
    threshold, ratio = Rounder(), Rounder()
    for box, place, weight in sorted(placed, key=lambda item: -item[0].low):
        rows[place] = row_of(box, weight, form, threshold, ratio)
    return np.frombuffer(b"".join(row.to_bytes(16, "little") for row in rows), np.uint8).reshape(-1, 16)


def main() -> None:
    folder = Path(__file__).parent / "data"
    folder.mkdir(exist_ok=True)
    for precision in FORMATS:
        for cover in ("strips", "rectangle"):
            (folder / file_name(cover, precision)).write_bytes(build(cover, precision).tobytes())


if __name__ == "__main__":
    main()
