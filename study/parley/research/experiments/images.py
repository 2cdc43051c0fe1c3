"""MNIST and CIFAR-10 as their publishers' files have them, and the public schemas that the networks' tables use."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from parley.learning.holding import Layout
from parley.learning.readers import Data, Dense, open_binary, read
from parley.study.errors import StudyError

FORMS = ("", ".xz", ".gz", ".bz2")
PICTURE = 3 * 32 * 32
TRAIN_BATCHES = tuple(f"cifar10/data_batch_{number}.bin" for number in range(1, 6))
TEST_BATCHES = ("cifar10/test_batch.bin",)
DIGITS = (
    ("mnist/train-images-idx3-ubyte", "mnist/train-labels-idx1-ubyte"),
    ("mnist/t10k-images-idx3-ubyte", "mnist/t10k-labels-idx1-ubyte"),
)
TARGET = {"name": "label", "kind": "classes", "classes": [str(number) for number in range(10)]}
PIXELS: dict[str, dict[str, Any]] = {
    # Mean and deviation of MNIST's training pixels as everybody quotes them: public here, not charged there either.
    "mnist": {"count": 784, "low": 0, "high": 255, "centre": 0.1307 * 255, "spread": 0.3081 * 255},
    # Near enough to those of any natural pictures: CIFAR-100's public part has 0.48 and 0.27 over all channels.
    "cifar10": {"count": PICTURE, "low": 0, "high": 255, "centre": 0.47 * 255, "spread": 0.25 * 255},
}
SHAPES = {"mnist": [1, 28, 28], "cifar10": [3, 32, 32]}


def pixel_schema(name: str) -> dict[str, Any]:
    """Pixels as they are, in 64ths of their deviation."""
    return {"format": "npz", "features": PIXELS[name], "target": TARGET, "bits": 6}


@lru_cache(maxsize=2)
def pictures(name: str, folder: Path) -> tuple[Data, Data]:
    """The training set and the test set, as read."""
    if name == "mnist":
        train, test = (read([found(folder, each) for each in pair], Layout("idx"), "label") for pair in DIGITS)
        return train, test
    return _batches(folder, TRAIN_BATCHES), _batches(folder, TEST_BATCHES)


def found(folder: Path, name: str) -> Path:
    """The file, compressed or not."""
    for form in FORMS:
        if (folder / (name + form)).is_file():
            return folder / (name + form)
    raise StudyError(f"--data: {name} is not in the folder given, compressed or not: data/README.md says what it is")


def _batches(folder: Path, names: tuple[str, ...]) -> Dense:
    """Records of one byte of label and 3,072 of pixels."""
    parts = []
    for name in names:
        path = found(folder, name)
        with open_binary(path) as file:
            held = np.frombuffer(file.read(), np.uint8)
        if not len(held) or len(held) % (PICTURE + 1):
            raise StudyError(f"{path.name} is no file of CIFAR-10's binary version: its records are 3,073 bytes each")
        parts.append(held.reshape(-1, PICTURE + 1))
    records = np.concatenate(parts)
    return Dense(records[:, 1:], records[:, 0])
