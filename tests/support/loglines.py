"""Log lines as they were written."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
SHARE = np.arange(4, dtype=np.uint64) * np.uint64(0x1234567890ABCDE) + np.uint64(0xFEDCBA9876543210)
GRADIENT = np.array([0.271828, -0.314159, 0.141421])
SEED = bytes(range(0xA0, 0xC0))
LABEL = "malignant 63"
TELLTALES = (
    [str(int(word)) for word in SHARE[:3]]
    + [f"{abs(value):.4f}"[1:] for value in GRADIENT]
    + [SEED.hex()[:20], SEED.hex(":")[:20], repr(SEED)[4:20], "malignant", ".6931"]
)


def parsed(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]
