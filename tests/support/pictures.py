"""A public set of small pictures, and a dashboard's folder with examples of them."""

from pathlib import Path
from typing import Any

import numpy as np

from parley.coordinator.store import RunStore
from parley.learning.pictures import Example, png

SIDE = 8
STUDY: dict[str, Any] = {
    "features": {"count": SIDE * SIDE, "low": 0, "high": 255},
    "target": {"name": "label", "kind": "classes", "classes": ["left", "right"]},
}
"""Pictures that are bright on one side."""


def bright(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Pixels uint8[count, SIDE²] and labels."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, count)
    pictures = draw.integers(0, 60, (count, SIDE, SIDE))
    for picture, label in zip(pictures, labels, strict=True):
        picture[:, SIDE // 2 * label : SIDE // 2 * (label + 1)] += 150
    return pictures.reshape(count, -1).astype(np.uint8), np.array(["left", "right"])[labels]


def examples(count: int = 6) -> list[Example]:
    """Grey and coloured ones, half of them right."""
    draw = np.random.default_rng(1)
    found = []
    for place in range(count):
        picture = draw.integers(0, 256, (SIDE, SIDE, 1 if place % 2 else 3)).astype(np.uint8)
        answer = "left" if place < count // 2 else "right"
        found.append(Example(place * 7, "right", answer, None if place == 1 else 0.9 - place / 100, png(picture)))
    return found


def with_examples(state: Path, digest: bytes, round_index: int = 8) -> None:
    """As a coordinator leaves them."""
    store = RunStore(state / "runs.sqlite")
    store.put_examples(digest, round_index, [each.as_json() for each in examples()])
    store.close()
