"""Public rows, targets and points: what a module is tried on before it sees a record, the same everywhere."""

import hashlib
import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from parley.models.losses import Tensor
from parley.models.module_spec import is_module
from parley.models.network import Network
from parley.mpc.randomness import Csprng

Floats = NDArray[np.float64]
SMALL = 0.5
"""What vectors (biases, scales of a normalisation) are drawn within."""


def public_rows(network: Network, count: int, label: str = "rows") -> tuple[Tensor, Tensor]:
    """Inputs between the schema's public bounds, and targets."""
    spec = network.spec
    width = math.prod(spec.input)
    low, high = (np.array([each[end] for each in spec.reach]) for end in (0, 1))
    share = _uniform(f"{label} {width}", count * width).reshape(count, width)
    rows = np.minimum(np.floor(low + share * (high - low + 1)), high) if spec.whole else low + share * (high - low)
    picked = _uniform(f"{label}' targets", count)
    if network.outputs > 1:
        targets = np.floor(picked * network.outputs)
    else:
        binary = spec.loss == "binary-cross-entropy" or is_module(spec.loss)
        targets = np.round(picked) if binary else 2 * picked - 1
    inputs = torch.from_numpy(rows.astype(np.float32)).view(count, *spec.input).to(network.device)
    return inputs, network.targets(targets)


def bounds(network: Network) -> Iterator[tuple[str, Tensor, Tensor]]:
    """A row of every column's lowest value and one of its highest, each with a public target."""
    spec = network.spec
    for end, which in enumerate(("lower", "upper")):
        row = np.broadcast_to([each[end] for each in spec.reach], math.prod(spec.input))
        inputs = torch.from_numpy(row.astype(np.float32)).view(1, *spec.input).to(network.device)
        yield which, inputs, public_rows(network, 1)[1]


def public_point(network: Network) -> Floats:
    """No torch's draw, which a version may change: every matrix as long as at a usual start, every vector small."""
    parts = []
    for (_, shape), part in zip(network.trained, np.split(*_split(network)), strict=True):
        if len(shape) < 2:
            parts.append((2 * part - 1) * SMALL)
        else:
            inside = math.prod(shape[2:])
            parts.append((2 * part - 1) * math.sqrt(6 / (max(1, (shape[0] + shape[1]) * inside))))
    return np.concatenate(parts)


def _split(network: Network) -> tuple[Floats, NDArray[np.int64]]:
    return _uniform("point", network.dimension), np.cumsum(network.sizes)[:-1]


def _uniform(label: str, count: int) -> Floats:
    """In [0, 1), from a public stream."""
    words = Csprng(hashlib.sha256(b"parley public rows 1 " + label.encode()).digest()).words(count)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
