"""The scattering transform's inner loops in C, sixteen images at a time: `native/waves.c`, in three builds.

All builds give the same bits. What the transform is, and its tables, are `parley.learning.wavelets`', which computes
the same in NumPy where nothing was compiled.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from parley.mpc.processor import BUILDS, Build, address, checked, of_build

Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
ALIGNED = 64


@dataclass(frozen=True)
class Sizes:
    """Of an image, of the padded one, and of the transform."""

    height: int
    width: int
    padded_height: int
    padded_width: int
    scales: int
    angles: int

    @property
    def channels(self) -> int:
        """1, each wavelet, and each wavelet with each coarser one."""
        return 1 + self.angles * self.scales + self.angles**2 * self.scales * (self.scales - 1) // 2

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of what becomes of one image."""
        return self.channels, self.height >> self.scales, self.width >> self.scales

    def tables(self) -> list[tuple[int, ...]]:
        """The shapes of all tables, in their order: roots and averages by halvings, then wavelets."""
        found: list[tuple[int, ...]] = []
        sides = [(self.padded_height >> each, self.padded_width >> each) for each in range(self.scales)]
        _, high, wide = self.shape
        for rows, columns in sides:
            found += [(2, rows), (2, columns), (high, rows), (wide, columns)]
        return found + [(self.angles, *sides[halved]) for scale in range(self.scales) for halved in range(scale + 1)]


def builds() -> list[Build]:
    """Those that this machine runs, fastest first."""
    return [build for build in BUILDS if _library(build) is not None]


@cache
def _library(build: Build) -> ctypes.CDLL | None:
    library = of_build("waves", build)
    if library is None:
        return None
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.scatter_room.argtypes, library.scatter_room.restype = [pointer, size], size
    library.scatter.argtypes = [pointer] * 4 + [size, pointer, size, pointer, pointer]
    library.scatter.restype = None
    return library


def scatter(
    planes: Singles, sizes: Sizes, above: Integers, left: Integers, tables: Sequence[Singles], build: Build
) -> Singles:
    """float32[n, height, width] to float32[n, channels, height', width'].

    `above` and `left` say which row and column of an image stands at each of the padded one.
    """
    library = _library(build)
    if library is None:
        raise ValueError(f"this machine has no build {build} of the waves")
    for size in (sizes.padded_height, sizes.padded_width):
        if size % 2**sizes.scales:
            raise ValueError(f"a padded side of {size} is no multiple of 2^{sizes.scales}")
    for places, size, most in (
        (above, sizes.padded_height, sizes.height), (left, sizes.padded_width, sizes.width)
    ):  # fmt: skip
        if places.size and not 0 <= places.min() <= places.max() < most:
            raise ValueError(f"a border names a place outside an image's {most}")
        checked(places, (size,), np.int64, "a border")
    due = sizes.tables()
    if len(tables) != len(due):
        raise ValueError(f"{len(tables)} tables, and {len(due)} are due")
    addresses = np.array(
        [checked(each, shape, np.float32, "a table") for each, shape in zip(tables, due, strict=True)], np.uint64
    )
    told = np.array(astuple(sizes), np.uint64)
    out = np.empty((len(planes), *sizes.shape), np.float32)
    room = np.empty(library.scatter_room(address(told), sizes.channels) + ALIGNED // 4, np.float32)
    start = -address(room) % ALIGNED // 4
    library.scatter(
        address(told), address(above), address(left), address(addresses), sizes.channels,
        checked(planes, (len(planes), sizes.height, sizes.width), np.float32, "planes"), len(planes),
        address(room[start:]), address(out),
    )  # fmt: skip
    return out
