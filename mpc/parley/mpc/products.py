"""Exact sums of outer products of 16-bit integers, Σ_i x_i ⊗ y_i: what a party's clipped gradients add up to.

Compiled (`native/products.c`) where the processor has AVX-512 with VNNI, several times faster than the float64 product
that gives the same integers everywhere else. Products are added in 32 bits that wrap around: only the true sum over
a chunk has to fit, and the caller states a bound that proves it.
"""

import ctypes
from functools import cache

import numpy as np
from numpy.typing import NDArray

from parley.mpc.processor import address, native, processor_features

CHUNK = 256
"""Records at once: what is packed stays in the second-level cache."""
FEATURES = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}
LARGEST_FACTOR = (1 << 15) - 1
LARGEST_TERM = (1 << 31) // CHUNK - 1
"""Of an entry of one record's term, so that a chunk's sum fits 32 bits."""


@cache
def _library() -> ctypes.CDLL | None:
    if not processor_features() >= FEATURES:
        return None
    try:
        library = native("products-wide")
    except OSError:  # a platform that the wheel was not compiled for
        return None
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.outer_sums.argtypes = [pointer, pointer, size, size, size, pointer, pointer]
    library.outer_sums.restype = None
    return library


def available() -> bool:
    """Whether this machine runs the compiled sums."""
    return _library() is not None


def outer_sums(left: NDArray[np.int16], right: NDArray[np.int16], out: NDArray[np.float64]) -> None:
    """out[d, k] = Σ_i left[i, d]·right[i, k], exactly, if no |entry| of a record's term exceeds `LARGEST_TERM`."""
    library = _library()
    if library is None:
        raise RuntimeError("the compiled sums are not available here: ask `available` first")
    records, d, k = len(left), left.shape[1], right.shape[1]
    for array, width in ((left, d), (right, k)):
        if array.shape != (records, width) or array.dtype != np.int16 or not array.flags.c_contiguous:
            raise ValueError(f"need contiguous int16[{records}, {width}], got {array.dtype}{list(array.shape)}")
    scratch = np.empty(CHUNK // 2 * (d + (k + 63) // 64 * 64), np.uint32)
    sums = np.empty((d, k), np.int32)
    out[:] = 0
    for start in range(0, records, CHUNK):
        x, y = left[start : start + CHUNK], right[start : start + CHUNK]
        if len(x) % 2:
            x, y = (np.concatenate([each, np.zeros_like(each[:1])]) for each in (x, y))
        sums[:] = 0
        library.outer_sums(address(x), address(y), len(x), d, k, address(scratch), address(sums))
        out += sums
