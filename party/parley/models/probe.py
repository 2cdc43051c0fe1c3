"""What a module makes of public rows at a public point: numbers in the manifest that each party finds again.

A digest covers the package's own bytes. Another version of torch, or an edited package that this one uses, shows here,
without asking for the same bits on every processor.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from parley.learning.errors import ModelError
from parley.models.module_spec import MOST_PROBED
from parley.models.network import Network
from parley.models.public_rows import public_point, public_rows
from parley.models.routes import Loop

ROWS = 4
MOST_OUTPUTS = 8
TOLERANCE = 1e-3
Floats = NDArray[np.float64]
assert ROWS * (MOST_OUTPUTS + 2) <= MOST_PROBED


def probe_of(network: Network) -> tuple[float, ...]:
    """Of each public row its scores, the first few, its loss and its gradient's norm; one record after the other."""
    flat, loop = network.flat(public_point(network)), Loop(network)
    inputs, targets = public_rows(network, ROWS, "probe")
    gradients = torch.empty(ROWS, network.dimension, device=network.device)
    loop.gradients(flat, inputs, targets, gradients)
    scores, losses = loop.outcomes(flat, inputs, targets)
    parts = [scores[:, :MOST_OUTPUTS], losses[:, None], torch.linalg.vector_norm(gradients, dim=1)[:, None]]
    found = torch.cat([each.double().cpu() for each in parts], dim=1).numpy()
    if not np.isfinite(found).all():
        raise ModelError(
            f"{network.spec.kind} makes numbers of public rows that are not finite, with weights of an ordinary size: "
            "keep its arithmetic in range, or the schema's rows shorter (spread)"
        )
    return tuple(float(f"{each:.6g}") for each in found.ravel())


def agree(found: tuple[float, ...], wanted: tuple[float, ...]) -> bool:
    """Within a thousandth of what each kind of figure is, at most."""
    if len(found) != len(wanted):
        return False
    a, b = (np.array(each).reshape(ROWS, -1) for each in (found, wanted))
    k = a.shape[1] - 2
    for part in (slice(0, k), slice(k, k + 1), slice(k + 1, k + 2)):
        scale = max(np.abs(a[:, part]).max(), np.abs(b[:, part]).max())
        if not np.abs(a[:, part] - b[:, part]).max() <= TOLERANCE * scale:
            return False
    return True
