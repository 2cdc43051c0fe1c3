"""Three ways to each record's own gradient. All equal the loop; `fastest` is chosen on public inputs.

- `Loop`: one record after the other, by autograd. Whatever a module does, its gradient is of that record.
- `Vmapped`: torch.func's vmap shows the module one record at a time and computes many. By construction, too.
- `Book`: one backward pass of a whole chunk to the outputs of its Conv2d and Linear layers, whose per-record gradients
  are products of that with the layer's input. The module sees records side by side here, so that one that mixes them
  would break the claim: only for modules that pass the checks of `parley.models.validator` and of isolation.
"""

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import nn
from torch.func import grad, vmap

from parley.learning.errors import ModelError
from parley.models.losses import Tensor
from parley.models.network import Network

# What vmap has no rule for it does one by one: right, and as slow as the loop. Both are shown by `parley model check`.
warnings.filterwarnings("ignore", message="There is a performance drop")


LEAST_RUN = 16
"""Numbers side by side in a picture's patch, from which channels last are copied faster."""


class Route(Protocol):
    """Each answers for every record of a chunk; none looks at how many there are but by shape."""

    name: str

    def gradients(self, flat: Tensor, inputs: Tensor, targets: Tensor, out: Tensor) -> None:
        """Into float32[records, dimension]."""
        ...

    def outcomes(self, flat: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and losses, of one pass."""
        ...


class Loop:
    """One record after the other."""

    name = "loop"

    def __init__(self, network: Network) -> None:
        self.network = network

    def gradients(self, flat: Tensor, inputs: Tensor, targets: Tensor, out: Tensor) -> None:
        leaf = flat.detach().requires_grad_(True)
        for row in range(len(inputs)):
            loss = self.network.losses(leaf, inputs[row : row + 1], targets[row : row + 1])[0]
            out[row] = torch.autograd.grad(loss, leaf)[0]

    def outcomes(self, flat: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            scores = torch.cat([self.network.scores(flat, each) for each in inputs.split(1)])
            pairs = zip(scores.split(1), targets.split(1), strict=True)
            return scores, torch.cat([self.network.lost(*each) for each in pairs])


class Vmapped:
    """Many records at once, each seen alone."""

    name = "vmap"

    def __init__(self, network: Network) -> None:
        self.network = network

    @cached_property
    def _gradients(self) -> Callable[..., Tensor]:
        found: Callable[..., Tensor] = vmap(grad(self._loss), (None, 0, 0))
        return found

    def _loss(self, flat: Tensor, row: Tensor, target: Tensor) -> Tensor:
        return self.network.losses(flat, row[None], target[None])[0]

    def gradients(self, flat: Tensor, inputs: Tensor, targets: Tensor, out: Tensor) -> None:
        out.copy_(self._gradients(flat, inputs, targets))

    def _outcome(self, flat: Tensor, row: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.network.scores(flat, row[None])
        return scores[0], self.network.lost(scores, target[None])[0]

    def outcomes(self, flat: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            found: tuple[Tensor, Tensor] = vmap(self._outcome, (None, 0, 0))(flat, inputs, targets)
            return found


class Book:
    """One backward pass of the chunk, then a product per layer."""

    name = "book"

    def __init__(self, network: Network) -> None:
        self.network = network
        self.layers = self._places()
        self.tape: list[tuple[Any, Tensor, Tensor]] | None = None
        for layer in self.layers:
            layer.register_forward_hook(self._note)

    def _places(self) -> dict[Any, dict[str, tuple[int, int]]]:
        """Each trained layer's weight and bias as a part of the flat vector; refuses what is not all covered."""
        starts, start = {}, 0
        for (name, _), size in zip(self.network.trained, self.network.sizes, strict=True):
            starts[name] = (start, start + size)
            start += size
        owned = {id(p): starts[name] for name, p in self.network.net.named_parameters() if name in starts}
        layers: dict[Any, dict[str, tuple[int, int]]] = {}
        covered = set()
        for layer in self.network.net.modules():
            mine = {name: owned[id(p)] for name, p in layer.named_parameters(recurse=False) if id(p) in owned}
            if mine and not _known(layer):
                raise ModelError(f"{type(layer).__name__} is not on the list of the book route")
            if mine:
                layers[layer] = mine
                covered |= set(mine.values())
        if len(covered) < len(starts):
            raise ModelError("not every parameter is a layer's own")
        return layers

    def _note(self, layer: Any, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        if self.tape is None:
            return None
        if not output.requires_grad:
            output.requires_grad_(True)
        self.tape.append((layer, inputs[0].detach(), output))
        return None

    def gradients(self, flat: Tensor, inputs: Tensor, targets: Tensor, out: Tensor) -> None:
        tape: list[tuple[Any, Tensor, Tensor]] = []
        self.tape = tape
        try:
            total = self.network.lost(self._scores(flat.detach(), inputs), targets).sum()
        finally:
            self.tape = None
        deltas = torch.autograd.grad(total, [output for _, _, output in tape], allow_unused=True)
        written: set[tuple[int, int]] = set()
        for (layer, activation, _), delta in zip(tape, deltas, strict=True):
            if delta is None:
                continue
            products = _convolved if isinstance(layer, nn.Conv2d) else _dense
            for name, place in self.layers[layer].items():
                shape = getattr(layer, name).shape
                products(name, layer, activation, delta, out[:, place[0] : place[1]].view(-1, *shape), place in written)
                written.add(place)
        for places in self.layers.values():
            for place in places.values():
                if place not in written:
                    out[:, place[0] : place[1]] = 0.0

    def outcomes(self, flat: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            scores = self._scores(flat, inputs)
            return scores, self.network.lost(scores, targets)

    def _scores(self, flat: Tensor, inputs: Tensor) -> Tensor:
        return self.network.scores(flat, inputs)


class BookByPixel(Book):
    """The same with a pixel's channels side by side in memory, which pools and convolutions are faster on.

    What a module computes is the same; one that views pictures as if they lay otherwise raises, and runs as `Book`.
    """

    def _scores(self, flat: Tensor, inputs: Tensor) -> Tensor:
        weights = {name: _by_pixel(each) for name, each in self.network.named(flat).items()}
        return self.network.scores(flat, _by_pixel(inputs), {**weights, **self.network.frozen})


def _by_pixel(values: Tensor) -> Tensor:
    # A copy: of one channel both orders are the same, and only a fresh tensor's strides say which is meant.
    return values.clone(memory_format=torch.channels_last) if values.dim() == 4 else values


def _known(layer: Any) -> bool:
    """Exactly these: a class derived from one may do anything with its weight."""
    if type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) is nn.Linear


def _dense(name: str, layer: Any, activation: Tensor, delta: Tensor, out: Tensor, more: bool) -> None:
    """[records, …, outputs] by [records, …, inputs], into `out` or, where there is something already, added to it."""
    records = len(delta)
    if name == "bias":
        _put(out, delta.reshape(records, -1, layer.out_features).sum(1), more)
    elif delta.dim() == 2 and not more:
        torch.mul(delta[:, :, None], activation[:, None, :], out=out)
    else:
        flat = delta.reshape(records, -1, layer.out_features), activation.reshape(records, -1, layer.in_features)
        _put(out, torch.bmm(flat[0].transpose(1, 2), flat[1]), more)


def _convolved(name: str, layer: Any, activation: Tensor, delta: Tensor, out: Tensor, more: bool) -> None:
    """[records, outputs, positions] by [records, positions, inputs of the kernel]: the longer run is copied at once."""
    if name == "bias":
        _put(out, delta.sum((2, 3)), more)
    elif layer.in_channels * layer.kernel_size[1] >= LEAST_RUN:
        deltas = delta.permute(0, 2, 3, 1).reshape(len(delta), -1, layer.out_channels)
        view = _patches(layer, activation.contiguous(memory_format=torch.channels_last)).permute(0, 4, 5, 2, 3, 1)
        found = torch.bmm(deltas.transpose(1, 2), view.reshape(*deltas.shape[:2], -1))
        _put(out, found.view(*out.shape[:2], *out.shape[3:], out.shape[2]).permute(0, 1, 4, 2, 3), more)
    else:
        view = _patches(layer, activation.contiguous())
        rows = view.reshape(len(delta), layer.in_channels * view.shape[2] * view.shape[3], -1)
        _put(out, torch.bmm(delta.flatten(2), rows.transpose(1, 2)).view(out.shape), more)


def _put(out: Tensor, found: Tensor, more: bool) -> None:
    if more:
        out += found
    else:
        out.copy_(found)


def _patches(layer: Any, activation: Tensor) -> Tensor:
    """Each position's input, as a view: [records, channels, kernel's rows and columns, rows and columns]."""
    if any(layer.padding):
        high, wide = layer.padding
        activation = nn.functional.pad(activation, (wide, wide, high, high))
    records, channels, high, wide = activation.shape
    (kh, kw), (sh, sw), (dh, dw) = layer.kernel_size, layer.stride, layer.dilation
    rows, columns = (high - dh * (kh - 1) - 1) // sh + 1, (wide - dw * (kw - 1) - 1) // sw + 1
    sb, sc, sy, sx = activation.stride()
    return activation.as_strided(
        (records, channels, kh, kw, rows, columns), (sb, sc, sy * dh, sx * dw, sy * sh, sx * sw)
    )
