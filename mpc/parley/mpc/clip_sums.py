"""Sums of clipped gradients in exact integers, for models of which a party has each record's gradient.

`native/clip.c` says how, and alone guarantees a record's norm, whoever made its gradient. It is compiled for AVX-512,
for AVX2 and for any other processor of PLATFORMS; where nothing was compiled, NumPy computes it (`plain_clip_sums`).
All give the same integers.
"""

import ctypes
import math
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from parley.mpc import plain_clip_sums
from parley.mpc.processor import BUILDS, Build, address, checked, of_build

Singles = NDArray[np.float32]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

LARGEST_STEPS = 1 << 22
"""A record's limit, in lattice steps, is below this: float32 holds such integers, and half of one."""
LARGEST_DIMENSION = 1 << 31
Way = Build | Literal["numpy"]


def builds() -> list[Build]:
    """Those that this machine runs, fastest first."""
    return [build for build in BUILDS if _library(build) is not None]


@cache
def _library(build: Build) -> ctypes.CDLL | None:
    library = of_build("clip", build)
    if library is None:
        return None
    pointer, size, real, word = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double, ctypes.c_int64
    library.clip_sums.argtypes = [pointer] * 3 + [size] * 2 + [real] * 4 + [word] + [pointer] * 3
    library.encode_row.argtypes = [pointer] * 2 + [size] + [ctypes.c_float] * 2 + [ctypes.c_int, word] + [pointer] * 2
    library.clip_sums.restype = library.encode_row.restype = None
    return library


def _open(build: Way | None) -> ctypes.CDLL | None:
    """That build, or the fastest; None for NumPy's."""
    for each in [build] if build else BUILDS:
        if each != "numpy" and (library := _library(each)) is not None:
            return library
    if build not in (None, "numpy"):
        raise ValueError(f"this machine has no build {build} of the sums")
    return None


def clip_sums(
    fresh: Singles,
    before: Singles | None,
    present: Flags,
    *,
    gradient_weight: float,
    gradient_norm: float,
    difference_weight: float = 0.0,
    difference_norm: float = 0.0,
    step: float,
    limit: int,
    total: Integers,
    build: Way | None = None,
) -> None:
    """total += Σ over the present rows g of the integers nearest to (w1·clip(g, C1) + w2·clip(g − g′, C2)) / step.

    No row's integers are longer than `limit`, exactly. A row that is not finite, or whose difference is not, adds
    zeros. Every row takes the same work, whatever is in it and whether it is present or not. Where rounding to the
    nearest could itself reach a sixteenth of the limit, on a coarse lattice of many coordinates, it is towards zero.
    """
    rows, d = fresh.shape
    if not 1 <= d <= LARGEST_DIMENSION:
        raise ValueError(f"gradients have {d:,} coordinates: 1 to 2^31")
    if not 1 <= limit < LARGEST_STEPS:
        raise ValueError(f"a record may span {limit:,} lattice steps: 1 to {LARGEST_STEPS - 1:,}, change fraction_bits")
    if not (step > 0 and gradient_norm > 0 and gradient_weight >= 0 and difference_weight >= 0):
        raise ValueError("a step and a clip norm are above zero, and no weight is below it")
    if (before is None) != (difference_weight == 0) or (before is not None and not difference_norm > 0):
        raise ValueError("gradients at the point before come with a weight and a clip norm of their difference")
    weights = gradient_weight / step, gradient_norm, difference_weight / step, difference_norm
    if not all(math.isfinite(each) for each in weights):
        raise ValueError("a weight over the lattice's step, or a clip norm, is not finite")
    arrays = (
        checked(fresh, (rows, d), np.float32, "gradients"),
        None if before is None else checked(before, (rows, d), np.float32, "gradients at the point before"),
        checked(present, (rows,), np.bool_, "present"),
    )
    checked(total, (d,), np.int64, "total")
    library = _open(build)
    if library is None:
        plain_clip_sums.clip_sums(fresh, before, present, plain_clip_sums.Weights(*weights), limit, total)
        return
    scratch = np.zeros((2, d), np.int32)
    library.clip_sums(*arrays, rows, d, *weights, limit, address(scratch[0]), address(scratch[1]), address(total))


def encode_row(
    fresh: Singles,
    before: Singles | None,
    weights: tuple[float, float],
    *,
    nearest: bool,
    limit: int,
    build: Way | None = None,
) -> tuple[NDArray[np.int32], int]:
    """One row's integers under any weights of g and g − g′, as `clip_sums` encodes it, and the sum of their squares.

    For tests: the check against the limit compares this sum, and must hold for rows that no clip has shortened.
    """
    library = _open(build)
    if library is None:
        return plain_clip_sums.encode_row(fresh, before, weights, nearest, limit)
    whole, squares = np.zeros(fresh.shape, np.int32), np.zeros(2, np.uint64)
    library.encode_row(
        checked(fresh, (len(fresh),), np.float32, "gradient"),
        None if before is None else checked(before, (len(fresh),), np.float32, "gradient at the point before"),
        len(fresh), *weights, nearest, limit, address(whole), address(squares),
    )  # fmt: skip
    return whole, int(squares[0]) + (int(squares[1]) << 64)
