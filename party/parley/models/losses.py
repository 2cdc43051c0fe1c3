"""Losses of scores [records, outputs] and targets [records]: one number per record."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F

from parley.models.module_spec import LOSSES

Tensor = Any
"""A torch.Tensor: torch's own types are Any where parley is checked."""
Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """log Σ_k e^{s_k} − s_y for classes."""
    return F.cross_entropy(scores, targets, reduction="none")


def binary_cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """log(1 + e^s) − y·s for y in {0, 1}."""
    return F.binary_cross_entropy_with_logits(scores[:, 0], targets, reduction="none")


def squared(scores: Tensor, targets: Tensor) -> Tensor:
    """(s − y)² / 2"""
    return (scores[:, 0] - targets) ** 2 / 2


def huber(scores: Tensor, targets: Tensor) -> Tensor:
    """e²/2 for |e| ≤ 1, else |e| − 1/2, with e = s − y."""
    return F.huber_loss(scores[:, 0], targets, reduction="none")


BUILT_IN: dict[str, Loss] = {
    "cross-entropy": cross_entropy,
    "binary-cross-entropy": binary_cross_entropy,
    "squared": squared,
    "huber": huber,
}
assert set(BUILT_IN) == set(LOSSES)
