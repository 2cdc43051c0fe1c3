"""Multilayer perceptron, clipped per record in exact integers without per-record gradients. Imports numpy and `mpc`.

With activations a and back-propagated deltas δ a layer's gradient is δ ⊗ a (the bias sees a constant 1). For the two
points of DDP-SRM (Wang, Jayaraman, Evans and Gu, Algorithm 2), Δδ = δ − δ′ and Δa = a − a′,

    |Δg|² = Σ over layers of |Δδ|²·|a|² + |δ′|²·|Δa|² + 2⟨Δδ, δ′⟩⟨a, Δa⟩

which, unlike |g|² + |g′|² − 2⟨g, g′⟩, does not cancel in float32 when θ′ is close to θ. The answer is one weighted
product per layer. Weights are folded into the deltas; these and the activations become integers, so a record's term
is D1 ⊗ A − D2 ⊗ A′ and its norm |D1|²|A|² + |D2|²|A′|² − 2⟨D1, D2⟩⟨A, A′⟩ is checked exactly in 64-bit integers.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from party.encoding import EXACT, Scale, Terms, to_integers
from party.errors import QueryError, SchemaError
from party.models import Residual
from party.rows import Block

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Array = NDArray[Any]

Inner = tuple[Integers, Integers, Integers]
"""Of a layer: |A|², |A′|² and ⟨A, A′⟩ with the bias's constant input, exact."""

HIDDEN_BITS = 9
"""Fraction bits of hidden activations."""
LARGEST_HIDDEN = 2.0**15
LARGEST_DELTA = np.float32(2.0**23)
"""So that deltas, and their differences, are exact in float32."""
LARGEST_PART = 2.0**28
"""Lattice steps of either part of a record's term before they cancel: four layers' squares fit 63 bits."""
FLOAT_MARGIN = 1 - 2.0**-14
"""For norms that were computed in float32."""
TINY = 1e-300


@dataclass(frozen=True)
class Pass:
    """One forward and backward pass of a batch at one point."""

    activations: list[Array]
    """Into each layer, [records, width]; the first is the input."""
    deltas: list[Array]
    """Derivatives of the loss in each layer's output before its activation function."""
    activation_squares: list[Floats]
    """|a|² + 1 per layer, the 1 for the bias; of the input from the exact integers."""
    delta_squares: list[Floats]
    """|δ|² per layer"""

    @cached_property
    def norm(self) -> Floats:
        """|g_i|; not finite where any part of the pass is not."""
        parts = [a * d for a, d in zip(self.activation_squares, self.delta_squares, strict=True)]
        return np.asarray(np.sqrt(np.sum(parts, axis=0)))


@dataclass(frozen=True)
class Perceptron:
    """Fully connected layers with ReLU or tanh between them; the last layer feeds the loss."""

    features: int
    hidden: tuple[int, ...]
    residual: Residual
    activation: str = "relu"

    def __post_init__(self) -> None:
        if not 1 <= len(self.hidden) <= 3 or min(self.hidden) < 1:
            raise SchemaError(f"hidden layers are {list(self.hidden)}: give one to three widths above 0")
        if self.activation not in ("relu", "tanh"):
            raise SchemaError(f"activation {self.activation!r} is not built in: use relu or tanh")

    @property
    def shapes(self) -> list[tuple[int, int]]:
        widths = [self.features, *self.hidden, self.residual.outputs]
        return list(itertools.pairwise(widths))

    @property
    def largest_limit(self) -> int:
        return 1 << 21

    @property
    def dimension(self) -> int:
        return sum((width + 1) * outputs for width, outputs in self.shapes)

    def initial(self, words: NDArray[np.uint64]) -> Floats:
        """Uniform on ±sqrt(6 / (inputs + outputs)) (Glorot and Bengio), biases zero; from public words."""
        uniform = words[: self.dimension].astype(np.float64) * 2.0**-63 - 1
        parts = []
        for weights, bias in self._split(uniform):
            bound = math.sqrt(6 / sum(weights.shape))
            parts += [(weights * bound).ravel(), np.zeros_like(bias)]
        return np.concatenate(parts)

    def contribution(
        self, block: Block, targets: Floats, present: Flags, points: tuple[Floats, ...], terms: Terms, scale: Scale
    ) -> Integers:
        """Σ over the present records of their clipped terms, in lattice steps, exactly."""
        if len(block) * 4 * LARGEST_PART >= EXACT:
            raise QueryError(f"a batch of {len(block):,} records is too large to sum exactly: use at most 2^23")
        whole_input = block.dense()
        inputs = block.singles()
        inputs *= np.float32(2.0**-block.bits)
        squared = block.norms.squared.take(block.indices)
        with np.errstate(all="ignore"):  # what overflows is not finite, and such a record contributes zero
            passes = self._passes(inputs, squared * 4.0**-block.bits, targets, points, np.float32)
            bits = [block.bits] + [HIDDEN_BITS] * len(self.hidden)
            sources = [[whole_input, *(_quantised(a) for a in each.activations[1:])] for each in passes]
            inner = _inner(sources, bits, squared)
            weights = self._weights(passes, terms, scale, inner)
            deltas = _fitted(passes, weights, inner, bits, present, scale)
        total = []
        for layer, (width, outputs) in enumerate(self.shapes):
            product = sources[0][layer].T @ deltas[0][layer]
            bias = deltas[0][layer].sum(axis=0)
            if layer and len(passes) == 2:
                product -= sources[1][layer].T @ deltas[1][layer]
                bias -= deltas[1][layer].sum(axis=0)
            total += [product.reshape(width * outputs), bias * 2.0 ** bits[layer]]
        return to_integers(np.concatenate(total))

    def gradients(self, block: Block, targets: Floats, point: Floats) -> Floats:
        inputs = block.dense() * 2.0**-block.bits
        found = self._passes(inputs, _dots(inputs, inputs), targets, (point,), np.float64)[0]
        parts = []
        for a, delta in zip(found.activations, found.deltas, strict=True):
            parts += [(a[:, :, None] * delta[:, None, :]).reshape(len(a), -1), delta]
        return np.concatenate(parts, axis=1)

    def gradient_norms(self, block: Block, targets: Floats, point: Floats) -> Floats:
        inputs = block.dense() * 2.0**-block.bits
        return self._passes(inputs, _dots(inputs, inputs), targets, (point,), np.float64)[0].norm

    def losses(self, block: Block, targets: Floats, point: Floats) -> Floats:
        return self.residual.losses(self.scores(block, point), targets)

    def scores(self, block: Block, point: Floats) -> Floats:
        a = block.dense() * 2.0**-block.bits
        layers = self._split(point)
        for index, (weights, bias) in enumerate(layers):
            a = a @ weights + bias
            if index < len(layers) - 1:
                a = self._activate(a)
        return np.asarray(a)

    # ------------------------------------------------------------ passes

    def _split(self, point: Floats) -> list[tuple[Floats, Floats]]:
        layers, start = [], 0
        for width, outputs in self.shapes:
            middle, end = start + width * outputs, start + (width + 1) * outputs
            layers.append((point[start:middle].reshape(width, outputs), point[middle:end]))
            start = end
        return layers

    def _activate(self, z: Array) -> Array:
        return np.asarray(np.maximum(z, 0) if self.activation == "relu" else np.tanh(z))

    def _slope(self, a: Array) -> Array:
        return (a > 0).astype(a.dtype) if self.activation == "relu" else 1 - a * a

    def _passes(
        self, inputs: Array, squared: Floats, targets: Floats, points: tuple[Floats, ...], kind: Any
    ) -> list[Pass]:
        layers = [[(w.astype(kind), b.astype(kind)) for w, b in self._split(point)] for point in points]
        # The input is common to both points: one product with the first layers side by side.
        first = inputs @ np.concatenate([each[0][0] for each in layers], axis=1)
        width = self.shapes[0][1]
        passes = []
        for index, each in enumerate(layers):
            z = first[:, index * width : (index + 1) * width] + each[0][1]
            activations = [inputs]
            for weights, bias in each[1:]:
                activations.append(self._activate(z))
                z = activations[-1] @ weights + bias
            delta = self.residual.residuals(z.astype(np.float64), targets).astype(kind)
            deltas = [delta]
            for (weights, _), a in zip(each[:0:-1], activations[:0:-1], strict=True):
                delta = (delta @ weights.T) * self._slope(a)
                deltas.append(delta)
            deltas.reverse()
            lengths = [squared + 1, *(_dots(a, a) + 1 for a in activations[1:])]
            passes.append(Pass(activations, deltas, lengths, [_dots(delta, delta) for delta in deltas]))
        return passes

    # ------------------------------------------------------------ clips and integers

    def _weights(self, passes: list[Pass], terms: Terms, scale: Scale, inner: list[Inner]) -> list[Floats]:
        """Per point and record, the real factor of its gradient: small enough that rounding cannot exceed the limit.

        Rounding the deltas moves a term by at most sqrt(outputs)·|A|/2 per layer and point, rounding hidden activations
        by |D|·sqrt(width)/2. A term that could reach the limit is shortened by that much beforehand: one pass, the same
        work for every batch. The exact check comes after.
        """
        own = [each.norm for each in passes]
        fresh = np.minimum(1.0, terms.gradient_norm / np.maximum(own[0], TINY))
        length = terms.gradient_weight * fresh * own[0]
        weights = [terms.gradient_weight * fresh]
        if len(passes) == 2:
            distance = _distance(*passes)
            change = np.minimum(1.0, terms.difference_norm / np.maximum(distance, TINY))
            length += terms.difference_weight * change * distance
            weights = [weights[0] + terms.difference_weight * change, terms.difference_weight * change]
        part = np.maximum.reduce([w * norm for w, norm in zip(weights, own, strict=True)])
        error: Floats = np.zeros(len(part))
        for point, (w, each) in enumerate(zip(weights, passes, strict=True)):
            for layer, (width, outputs) in enumerate(self.shapes):
                error += math.sqrt(outputs) / 2 * np.sqrt(inner[layer][point])
                if layer:
                    error += w * np.sqrt(each.delta_squares[layer] * width) / 2 * 2.0**-HIDDEN_BITS / scale.step
        room = np.maximum(scale.limit * FLOAT_MARGIN - error, 0.0) * scale.step
        shrink = np.minimum(1.0, room / np.maximum(length, TINY))
        shrink = np.minimum(shrink, LARGEST_PART * scale.step / np.maximum(part, TINY))
        return [w * shrink for w in weights]


def _fitted(
    passes: list[Pass], weights: list[Floats], inner: list[Inner], bits: list[int], present: Flags, scale: Scale
) -> list[list[Floats]]:
    """Integer deltas, [point][layer], the first layer's all at the first point; zero for absent and failing records."""
    kept = present.copy()
    for each, w in zip(passes, weights, strict=True):
        kept &= np.isfinite(each.norm) & np.isfinite(w)
    deltas = []
    for each, w in zip(passes, weights, strict=True):
        rows = []
        for delta, b in zip(each.deltas, bits, strict=True):
            whole = delta * (w * (2.0**-b / scale.step)).astype(delta.dtype)[:, None]
            # As for activations: a nan becomes a number, for its row to be multiplied by zero.
            np.fmin(np.fmax(whole, -LARGEST_DELTA, out=whole), LARGEST_DELTA, out=whole)
            rows.append(np.rint(whole, out=whole))
        deltas.append(rows)
    if len(deltas) == 2:
        # The first layer's input is common to both points: their deltas, exact in float32, meet before the product.
        deltas[0][0] -= deltas[1][0]
        deltas[1][0] = np.zeros_like(deltas[1][0][:, :0])
    exact = [[whole.astype(np.float64) for whole in rows] for rows in deltas]
    lengths = _lengths(exact, inner)
    kept &= (lengths >= 0) & (lengths <= scale.limit * scale.limit)
    for whole in itertools.chain(*exact):
        whole *= kept[:, None]
    return exact


def _quantised(activations: Array) -> Floats:
    """Hidden activations as integers; what is too large is cut, for the deltas' norm check does not depend on it."""
    scaled = activations * activations.dtype.type(2.0**HIDDEN_BITS)
    # fmin and fmax turn a nan, whose record contributes zero, into a number that can be multiplied by zero.
    limit = scaled.dtype.type(LARGEST_HIDDEN)
    np.fmin(np.fmax(scaled, -limit, out=scaled), limit, out=scaled)
    return np.asarray(np.rint(scaled, out=scaled), np.float64)


def _distance(new: Pass, old: Pass) -> Floats:
    """|g_i − g′_i| by the formula of this module's head."""
    total: Floats = np.zeros(len(new.deltas[0]))
    for layer, (a, b) in enumerate(zip(new.activations, old.activations, strict=True)):
        change = new.deltas[layer] - old.deltas[layer]
        total += _dots(change, change) * new.activation_squares[layer]
        if layer:
            moved = a - b
            total += old.delta_squares[layer] * _dots(moved, moved)
            total += 2 * _dots(change, old.deltas[layer]) * _dots(a, moved)
    return np.asarray(np.sqrt(np.maximum(total, 0.0)))


def _dots(left: Array, right: Array) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", left, right), np.float64)


def _inner(sources: list[list[Floats]], bits: list[int], squared: Floats) -> list[Inner]:
    """Per layer |A|², |A′|² and ⟨A, A′⟩ with the bias's constant input, as exact integers."""
    found = []
    for layer, b in enumerate(bits):
        one = 1 << (2 * b)
        a, other = sources[0][layer], sources[-1][layer]
        own = (_dots(a, a) if layer else squared).astype(np.int64) + one
        if layer == 0 or a is other:
            found.append((own, own, own))
        else:
            found.append((own, _dots(other, other).astype(np.int64) + one, _dots(a, other).astype(np.int64) + one))
    return found


def _lengths(deltas: list[list[Floats]], inner: list[Inner]) -> Integers:
    """Exact squared norms of the integer terms; −1 where one could not be computed exactly."""
    total = np.zeros(len(deltas[0][0]), np.int64)
    inexact = np.zeros(len(total), np.bool_)
    for layer, (own, other, cross) in enumerate(inner):
        d = deltas[0][layer]
        e = deltas[1][layer] if len(deltas) == 2 and layer else None
        products = [(_dots(d, d), own, 1)]
        if e is not None:
            products += [(_dots(e, e), other, 1), (_dots(d, e), cross, -2)]
        for product, gram, times in products:
            # Squares below 2^53 make every partial sum of a product exact (Cauchy and Schwarz); four layers' terms of
            # weight 1, 1 and 2 below 2^58 stay inside 63 bits.
            inexact |= (product >= EXACT) | (np.abs(product) * np.abs(gram) >= 2.0**58)
            total += times * np.where(inexact, 0, product).astype(np.int64) * gram
    return np.where(inexact, -1, total)
