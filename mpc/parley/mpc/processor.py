"""What was compiled for this machine, and what its processor can do."""

import ctypes
import platform
import sys
from functools import cache
from importlib import resources
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parley.mpc.errors import ConfigurationError

Build = Literal["avx512", "avx2", "portable"]

FEATURES = (
    "aes", "pclmulqdq", "sse4_1", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "gfni", "vaes",
    "vpclmulqdq", "avx2", "fma",
)  # fmt: skip
"""As Linux names them on x86-64, in the order of the bits of `native/processor.c`. An ARM has the first two, and calls
the second pmull."""

BUILDS: dict[Build, set[str]] = {
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"},
    "avx2": {"avx2", "fma"},
    "portable": set(),
}
"""What each build of a library needs that is compiled three times from one source; fastest first."""


def native(name: str) -> ctypes.CDLL:
    """A compiled library of `native/`; OSError on a platform that the package was not compiled for."""
    return ctypes.CDLL(str(resources.files("parley.mpc").joinpath("native", f"{name}.so")))


def not_compiled(error: OSError) -> ConfigurationError:
    """What a server is told that was installed from the wheel without kernels, or on a machine that has none."""
    machine = platform.machine()
    fix = (
        f"of the release's files install the one that ends in manylinux_2_28_{machine}.whl over this: "
        "pip install --force-reinstall --no-deps FILE, see docs/install.md"
        if sys.platform == "linux" and machine in ("x86_64", "aarch64")
        else "run aggregators on Linux, on an x86-64 or ARM processor"
    )
    why = str(error).replace(": ", ", ")  # what stands before a colon is the problem
    return ConfigurationError(
        f"the compiled kernels that make noise are missing ({why}): {fix}; studies, simulations, predictions and a "
        "party need none"
    )


def address(array: NDArray[Any]) -> int:
    """Where an array's memory begins."""
    if array.flags.writeable and array.size and array.flags.c_contiguous:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # a third of the other's time
    found: int = array.__array_interface__["data"][0]
    return found


def checked(array: NDArray[Any], shape: tuple[int, ...], dtype: Any, name: str) -> int:
    """The array's address, if it is what a loop will assume."""
    if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
        raise ValueError(
            f"{name}: need contiguous {np.dtype(dtype).name}{list(shape)}, got {array.dtype}{list(array.shape)}"
        )
    return address(array)


@cache
def processor_features() -> frozenset[str]:
    """Those of FEATURES that this processor has, by its own word: /proc is another machine's under emulation."""
    try:
        library = native("processor")
    except OSError:
        return frozenset()
    library.features.restype = ctypes.c_uint64
    found = library.features()
    return frozenset(name for bit, name in enumerate(FEATURES) if found >> bit & 1)


@cache
def of_build(name: str, build: Build) -> ctypes.CDLL | None:
    """One of such a library's builds; None where this processor does not run it, or it was not compiled."""
    if not processor_features() >= BUILDS[build]:
        return None
    try:
        return native(f"{name}-{build}")
    except OSError:  # a platform that the package was not compiled for
        return None
