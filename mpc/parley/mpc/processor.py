"""What was compiled for this machine, and what its processor can do."""

import ctypes
from functools import cache
from importlib import resources

FEATURES = (
    "aes", "pclmulqdq", "sse4_1", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "gfni", "vaes",
    "vpclmulqdq",
)  # fmt: skip
"""As Linux names them on x86-64, in the order of the bits of `native/processor.c`. An ARM has the first two, and calls
the second pmull."""


def native(name: str) -> ctypes.CDLL:
    """A compiled library of `native/`; OSError on a platform that the package was not compiled for."""
    return ctypes.CDLL(str(resources.files("parley.mpc").joinpath("native", f"{name}.so")))


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
