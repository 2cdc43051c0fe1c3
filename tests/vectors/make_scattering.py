"""Writes scattering.npz beside this file, by kymatio and from public images. Made once; run only to add a case.

Not part of the tests: kymatio is no dependency of ours. In an environment of its own, with the folders of MNIST
(t10k-images-idx3-ubyte.gz) and CIFAR-10 (test_batch.bin.xz):

    pip install kymatio==0.3.0
    python tests/vectors/make_scattering.py MNIST CIFAR10
"""

import gzip
import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special
from numpy.typing import NDArray

if not hasattr(scipy.special, "sph_harm"):
    scipy.special.sph_harm = (
        None  # kymatio 0.3.0 imports it for balls in three dimensions, and SciPy 1.17 has it no more
    )
from kymatio.numpy import Scattering2D

EIGHT = 8
UNIT = 2.0**-20
"""Coefficients are kept as whole multiples of it: half of it is a twentieth of what the test allows."""


def coefficients(images: NDArray[Any], scales: int, angles: int) -> NDArray[np.int32]:
    """Of float64[n, height, width], in units; float64 all the way, but for kymatio's own filters."""
    found = Scattering2D(J=scales, shape=images.shape[1:], L=angles)(images.astype(np.float64))
    return np.asarray(np.rint(found / UNIT), np.int32)


def main(mnist: Path, cifar: Path) -> None:
    digits = np.frombuffer(
        gzip.decompress((mnist / "t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8, EIGHT * 784, 16
    )
    colours = np.frombuffer(lzma.decompress((cifar / "test_batch.bin.xz").read_bytes()), np.uint8, EIGHT * 3073)
    digits = digits.reshape(EIGHT, 28, 28)
    colours = colours.reshape(EIGHT, 3073)[:, 1:].reshape(EIGHT, 3, 32, 32)
    odd = np.concatenate([digits[:2].reshape(2, -1), digits[2:4].reshape(2, -1)], axis=1)[:, : 30 * 45]
    held: dict[str, Any] = {"digits": digits, "colours": colours, "odd": odd.reshape(2, 30, 45)}
    held["digits 2 8"] = coefficients(digits / 255, 2, 8)
    held["colours 2 8"] = coefficients(colours.reshape(-1, 32, 32) / 255, 2, 8)
    held["odd 1 6"] = coefficients(held["odd"] / 255, 1, 6)
    held["odd 3 4"] = coefficients(held["odd"] / 255, 3, 4)
    np.savez_compressed(Path(__file__).with_name("scattering.npz"), **held)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
