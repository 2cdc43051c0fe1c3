"""The trees of seeds that a transfer extension starts from (Roy 2022, figure 14), all at once: `native/trees.c`.

Tree t of 128/k hangs from one root of 16 bytes and has 2^k leaves; SHA-256 makes two children of a node, SHA-512 a
key for the PRG and a witness of a leaf. For each level the owner sends the sums of all left and of all right
children, each under the pad of a base transfer; so the other server, by its choices, learns all leaves but one. The
sum of all witnesses, which gives it the missing one, and a hash over all of them prove the tree consistent. Leaf x's
key is handed out at place x ^ missing, zeros at place 0.
"""

import ctypes
from functools import cache

import numpy as np

from parley.mpc.errors import PeerCheatedError
from parley.mpc.kernels import Bytes
from parley.mpc.processor import BUILDS, Build, address, checked, not_compiled, of_build

BASE_TRANSFERS = 128
SEED_BYTES = 16
PROOF_BYTES = 32
LONGEST_SESSION = 64
"""Bytes of an id."""


def builds() -> list[Build]:
    """Those that this machine runs, fastest first."""
    return [build for build in BUILDS if _library(build) is not None]


@cache
def _library(build: Build) -> ctypes.CDLL | None:
    library = of_build("trees", build)
    if library is None:
        return None
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.grow_trees.argtypes, library.grow_trees.restype = [pointer, size, integer, *[pointer] * 4], None
    library.puncture_trees.argtypes, library.puncture_trees.restype = [pointer, size, integer, *[pointer] * 5], integer
    return library


@cache
def _fastest() -> Build:
    found = builds()
    if not found:
        raise not_compiled(OSError("trees-portable.so"))
    return found[0]


def message_bytes(k: int) -> int:
    """What is sent of one tree: two sums a level, the witnesses' sum, the proof."""
    return 2 * SEED_BYTES * k + 2 * PROOF_BYTES


def grow(session: bytes, k: int, roots: Bytes, pads: Bytes, build: Build | None = None) -> tuple[Bytes, Bytes]:
    """All leaves' keys uint8[128/k, 2^k, 16], and the message uint8[128/k, ...] for the other server.

    `roots` uint8[128/k, 16]; `pads` uint8[128, 2, 16]: both keys of every base transfer that this server sent.
    """
    trees = BASE_TRANSFERS // k
    keys = np.empty((trees, 1 << k, SEED_BYTES), np.uint8)
    message = np.empty((trees, message_bytes(k)), np.uint8)
    _opened(build).grow_trees(
        session, _length(session), k, checked(roots, (trees, SEED_BYTES), np.uint8, "roots"),
        checked(pads, (BASE_TRANSFERS, 2, SEED_BYTES), np.uint8, "pads"), address(keys), address(message),
    )  # fmt: skip
    return keys, message


def puncture(
    session: bytes, k: int, message: Bytes, choices: Bytes, pads: Bytes, build: Build | None = None
) -> tuple[Bytes, Bytes]:
    """Which leaf of each tree stays unknown uint8[128/k], and the keys uint8[128/k, 2^k, 16] of all others.

    `choices` uint8[128] and `pads` uint8[128, 16]: the base transfers that this server received.
    """
    trees = BASE_TRANSFERS // k
    checked(choices, (BASE_TRANSFERS,), np.uint8, "choices")
    if choices.max() > 1:
        raise ValueError("choices: a bit is 0 or 1")
    missing, keys = np.empty(trees, np.uint8), np.empty((trees, 1 << k, SEED_BYTES), np.uint8)
    consistent = _opened(build).puncture_trees(
        session, _length(session), k, checked(message, (trees, message_bytes(k)), np.uint8, "message"),
        address(choices), checked(pads, (BASE_TRANSFERS, SEED_BYTES), np.uint8, "pads"), address(missing),
        address(keys),
    )  # fmt: skip
    if not consistent:
        raise PeerCheatedError("the other server's tree of seeds is not consistent")
    return missing, keys


def _length(session: bytes) -> int:
    if len(session) > LONGEST_SESSION:
        raise ValueError(f"a session's id has {LONGEST_SESSION} bytes at most, this one {len(session)}")
    return len(session)


def _opened(build: Build | None) -> ctypes.CDLL:
    library = _library(build or _fastest())
    if library is None:
        raise ValueError(f"this machine has no build {build} of the trees")
    return library
