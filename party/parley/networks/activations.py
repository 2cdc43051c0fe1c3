"""Activations by name, as options of a manifest spell them."""

from collections.abc import Callable

from torch import nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


def activation_of(name: str) -> Callable[[], nn.Module]:
    """A maker of modules: every place in a network gets one of its own."""
    if name not in ACTIVATIONS:
        raise ValueError(f"no activation {name!r}: use one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]
