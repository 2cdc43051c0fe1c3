"""Whether a module's path depends on what is in a record: its passes without any values, by torch's FakeTensorMode.

A branch on a record's content would decide how long an answer takes. Such code asks a tensor for its values (`.item()`,
`if x.sum() > 0`, an index of unknown length), and here there are none.
"""

import warnings
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from parley.models.network import Network
from parley.models.public_rows import public_rows
from parley.models.verified_import import said

ADVICE = (
    "keep to arithmetic on tensors (torch.where for if; no .item(), float(), .tolist() or .numpy(); no nonzero or "
    "boolean index)"
)


class Watching(FakeTensorMode):  # type: ignore[misc]
    """Remembers what was asked for, even where the module's code catches the error."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.asked: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return super().__torch_dispatch__(func, types, args, kwargs or {})
        except (DataDependentOutputException, DynamicOutputShapeException):
            self.asked.append(str(func))
            raise


def depends_on_values(network: Network) -> str | None:
    """What is wrong, and what to do instead; none where forward, loss and backward need no record's values."""
    # On a module of its own: what it keeps of a pass without values is of no use to another.
    other = network.again()
    constants = other.frozen
    for rows in (1, 2):
        mode, failed = Watching(), None
        inputs, targets = public_rows(network, rows)
        flat = torch.zeros(network.dimension, device=network.device)
        try:
            with warnings.catch_warnings(), mode:
                warnings.simplefilter("ignore")
                none = {name: mode.from_tensor(each) for name, each in constants.items()}
                leaf = mode.from_tensor(flat).requires_grad_(True)
                losses = other.losses(leaf, mode.from_tensor(inputs), mode.from_tensor(targets), none)
                torch.autograd.grad(losses.sum(), leaf, allow_unused=True)
        except Exception as error:
            failed = said(error)
        if mode.asked:
            return f"what it computes depends on a record's values ({mode.asked[0]}): {ADVICE}"
        if failed is not None:
            return f"its passes cannot be followed without a record's values ({failed}): {ADVICE}"
    return None
