"""How fast features of images are, on one core: planes a second of each build, and records a second with what follows.

    OMP_NUM_THREADS=1 python benchmarks/scattering_speed.py

Seconds are the processor's own, so that a busy machine says the same.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from parley.learning.readers import Dense
from parley.learning.records import encode
from parley.learning.schema import schema_from_json
from parley.learning.wavelets import plan, scattered_by, scattered_in_numpy
from parley.mpc import waves

PLANES, RECORDS, TIMES = 2048, 1024, 3


def fastest(count: int, work: Callable[[], object]) -> int:
    """Units a second, of the best of a few."""
    taken = []
    for _ in range(TIMES):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return round(count / min(taken))


def measure(channels: int, side: int) -> str:
    """Of images of this shape."""
    draw = np.random.default_rng(0)
    planes, found = draw.random((PLANES, side, side), np.float32), plan(side, side, 2, 8)
    speeds = {each: fastest(PLANES, partial(scattered_by, each, planes, found)) for each in waves.builds()}
    pixels = channels * side * side
    schema = schema_from_json(
        {
            "features": {"count": pixels, "low": 0, "high": 255, "spread": 255},
            "target": {"name": "label", "kind": "classes", "classes": ["0", "1"]},
            "transform": {"kind": "scattering", "shape": [channels, side, side]},
            "bits": 4,
        }
    )
    images = Dense(draw.integers(0, 256, (RECORDS, pixels), np.uint8), np.zeros(RECORDS, np.int64))
    numpy = fastest(PLANES, partial(scattered_in_numpy, planes, found))
    whole = fastest(RECORDS, partial(encode, images, schema))
    return f"planes a second {speeds}, in NumPy {numpy}; records a second, read and normalised: {whole}"


if __name__ == "__main__":
    print(f"MNIST: {measure(1, 28)}")
    print(f"CIFAR-10: {measure(3, 32)}")
