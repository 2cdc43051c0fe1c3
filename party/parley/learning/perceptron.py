"""Multilayer perceptron, clipped per record in exact integers without per-record gradients.

With activations a and back-propagated deltas δ a layer's gradient is δ ⊗ a (the bias sees a constant 1). For the two
points of DDP-SRM (Wang, Jayaraman, Evans and Gu, Algorithm 2), Δδ = δ − δ′ and Δa = a − a′,

    |Δg|² = Σ over layers of |Δδ|²·|a|² + |δ′|²·|Δa|² + 2⟨Δδ, δ′⟩⟨a, Δa⟩

which, unlike |g|² + |g′|² − 2⟨g, g′⟩, does not cancel in float32 when θ′ is close to θ. The answer is one weighted
product per layer. Weights are folded into the deltas; these and the activations become integers, so a record's term
is D1 ⊗ A − D2 ⊗ A′ and its norm |D1|²|A|² + |D2|²|A′|² − 2⟨D1, D2⟩⟨A, A′⟩ is checked exactly in 64-bit integers.
The first layer, most of the work, is summed in 16-bit integers where public numbers say that they suffice.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.encoding import EXACT, Scale, to_integers
from parley.learning.errors import QueryError, SchemaError
from parley.learning.models import Residual
from parley.learning.rows import Block
from parley.mpc.products import LARGEST_FACTOR, LARGEST_TERM, available, outer_sums
from parley.privacy.clipping import Terms

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Array = NDArray[Any]

HIDDEN_BITS = 9
"""Fraction bits of hidden activations."""
LARGEST_HIDDEN = 2.0**15
LARGEST_DELTA = np.float32(2.0**23)
"""So that deltas, and their differences, are exact in float32."""
LARGEST_PART = 2.0**28
"""Lattice steps of either part of a record's term before they cancel: four layers' squares fit 63 bits."""
FLOAT_MARGIN = 1 - 2.0**-14
"""For norms that were computed in float32."""
MOST_FEATURES, MOST_HIDDEN = 1 << 20, 1 << 12
LARGEST_WEIGHT = np.float32(2.0**12)
"""A public model's weight beyond this acts as this: with rows below 2^26, at most so many features and so wide hidden
layers no score and no delta leaves float32, so that none is ever nan and no step of a pass looks for one."""
LARGEST_RESIDUAL = 2.0**20
"""A record whose loss is steeper contributes zero."""
TINY = 1e-300


@dataclass(frozen=True)
class Pass:
    """One forward and backward pass of a batch, at all points of a query at once."""

    activations: list[Array]
    """Into each layer, [records, points, width]; the first is the input, common to all points: [records, 1, width]."""
    deltas: list[Array]
    """Derivatives of the loss in each layer's output before its activation function, [records, points, width]."""
    activation_squares: list[Floats]
    """|a|² + 1 per layer, [records, points], the 1 for the bias; of the input from the exact integers."""
    delta_squares: list[Floats]
    """|δ|² per layer, [records, points]"""
    sound: Flags
    """[records]: the loss's derivatives are finite and of a size that can be carried back."""

    @cached_property
    def norm(self) -> Floats:
        """|g_i|, [records, points]; not finite where a product left the range."""
        total = self.activation_squares[0] * self.delta_squares[0]
        for a, d in zip(self.activation_squares[1:], self.delta_squares[1:], strict=True):
            total += a * d
        return np.asarray(np.sqrt(total))


@dataclass(frozen=True)
class Inner:
    """Of a layer's integer activations, with the bias's constant input, exact."""

    squares: Integers
    """|A|² and |A′|², [records, points], one column where the points have the input in common"""
    cross: Integers
    """⟨A, A′⟩, [records]; of one point |A|²"""


@dataclass(frozen=True)
class Perceptron:
    """Fully connected layers with ReLU or tanh between them; the last layer feeds the loss."""

    features: int
    hidden: tuple[int, ...]
    residual: Residual
    activation: str = "relu"

    def __post_init__(self) -> None:
        # 4.0 would pass for 4 in every comparison, and fail where arrays are made, once budgets are charged.
        whole = all(type(width) is int and 1 <= width <= MOST_HIDDEN for width in self.hidden)
        if not 1 <= len(self.hidden) <= 3 or not whole:
            raise SchemaError(
                f"hidden layers are {list(self.hidden)}: give one to three whole widths of 1 to {MOST_HIDDEN:,}"
            )
        if not 1 <= self.features <= MOST_FEATURES:
            raise SchemaError(f"a perceptron sees {self.features:,} features: use at most {MOST_FEATURES:,}")
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
        squared = block.norms.squared.take(block.indices)[:, None]
        # Any record that passes the norm check below has |D|·2^bits ≤ |D|·|A| ≤ L: D fits 16 bits, a term's entry L.
        fits = scale.limit <= min(LARGEST_FACTOR << block.bits, LARGEST_TERM) and available()
        shorts = block.shorts() if fits else None
        whole_input = block.dense() if shorts is None else shorts
        bits = [block.bits] + [HIDDEN_BITS] * len(self.hidden)
        with np.errstate(all="ignore"):  # what overflows is not finite, and such a record contributes zero
            each = self._pass(
                block.singles(), squared * 4.0**-block.bits, targets, _singles(points), np.float32(2.0**-block.bits)
            )
            sources: list[Array] = [whole_input[:, None], *(_quantised(a) for a in each.activations[1:])]
            inner = _inner(sources, bits, squared)
            weights = self._weights(each, terms, scale, inner)
            deltas = _fitted(each, weights, inner, bits, present, scale)
        total, start = np.empty(self.dimension), 0
        for layer, (width, outputs) in enumerate(self.shapes):
            middle, end = start + width * outputs, start + (width + 1) * outputs
            product, bias = total[start:middle].reshape(width, outputs), total[middle:end]
            if layer == 0 and shorts is not None:
                outer_sums(shorts, deltas[0][:, 0].astype(np.int16), product)
            else:
                np.matmul(sources[layer][:, 0].T, deltas[layer][:, 0], out=product)
            deltas[layer][:, 0].sum(axis=0, out=bias)
            if deltas[layer].shape[1] == 2:
                product -= sources[layer][:, 1].T @ deltas[layer][:, 1]
                bias -= deltas[layer][:, 1].sum(axis=0)
            bias *= 2.0 ** bits[layer]
            start = end
        return to_integers(total)

    def gradients(self, block: Block, targets: Floats, point: Floats) -> Floats:
        found = self._whole_pass(block, targets, point)
        parts = []
        for a, delta in zip(found.activations, found.deltas, strict=True):
            parts += [(a[:, 0, :, None] * delta[:, 0, None, :]).reshape(len(a), -1), delta[:, 0]]
        return np.concatenate(parts, axis=1)

    def gradient_norms(self, block: Block, targets: Floats, point: Floats) -> Floats:
        found = self._whole_pass(block, targets, point)
        return np.where(found.sound, found.norm[:, 0], np.nan)

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

    def _whole_pass(self, block: Block, targets: Floats, point: Floats) -> Pass:
        """In float64 at one point, for what sums per-record gradients or only measures them."""
        inputs = block.dense() * 2.0**-block.bits
        return self._pass(inputs, _dots(inputs, inputs)[:, None], targets, point[None], np.float64(1.0))

    def _pass(self, inputs: Array, squared: Floats, targets: Floats, points: Array, unit: Any) -> Pass:
        """`points`, [points, dimension], is of the inputs' kind; inputs are in units of `unit`."""
        layers = [self._split(point) for point in points]
        count, records = len(points), len(inputs)
        # The input is common to all points: one product with the first layers side by side.
        first = np.concatenate([each[0][0] for each in layers], axis=1)
        z = (inputs @ np.multiply(first, unit, out=first)).reshape(records, count, -1)
        z += np.stack([each[0][1] for each in layers])
        activations = [inputs[:, None]]
        for layer in range(1, len(self.shapes)):
            activations.append(self._activate(z))
            z = np.empty((records, count, self.shapes[layer][1]), inputs.dtype)
            for index, each in enumerate(layers):
                np.matmul(activations[-1][:, index], each[layer][0], out=z[:, index])
            z += np.stack([each[layer][1] for each in layers])
        scores = z.reshape(records * count, -1).astype(np.float64)
        residuals = self.residual.residuals(scores, np.repeat(targets, count)).reshape(z.shape)
        sound: Flags = np.all(np.abs(residuals) <= LARGEST_RESIDUAL, axis=(1, 2))
        delta = np.where(sound[:, None, None], residuals, 0.0).astype(inputs.dtype)
        deltas = [delta]
        for layer in range(len(self.shapes) - 1, 0, -1):
            delta = np.empty_like(activations[layer])
            for index, each in enumerate(layers):
                np.matmul(deltas[-1][:, index], each[layer][0].T, out=delta[:, index])
            delta *= self._slope(activations[layer])
            deltas.append(delta)
        deltas.reverse()
        lengths = [squared + 1, *(_dots(a, a) + 1 for a in activations[1:])]
        return Pass(activations, deltas, lengths, [_dots(delta, delta) for delta in deltas], sound)

    # ------------------------------------------------------------ clips and integers

    def _weights(self, each: Pass, terms: Terms, scale: Scale, inner: list[Inner]) -> Floats:
        """Per record and point, the real factor of its gradient: small enough that rounding cannot exceed the limit.

        Rounding the deltas moves a term by at most sqrt(outputs)·|A|/2 per layer and point, rounding hidden activations
        by |D|·sqrt(width)/2. A term that could reach the limit is shortened by that much beforehand: one pass, the same
        work for every batch. The exact check comes after.
        """
        own = each.norm
        fresh = terms.gradient_weight * np.minimum(1.0, terms.gradient_norm / np.maximum(own[:, 0], TINY))
        length = fresh * own[:, 0]
        weights = fresh[:, None]
        if own.shape[1] == 2:
            distance = _distance(each)
            change = terms.difference_weight * np.minimum(1.0, terms.difference_norm / np.maximum(distance, TINY))
            length += change * distance
            weights = np.stack([fresh + change, change], axis=1)
        error = np.zeros_like(own)
        hidden = 0.5 * weights * (2.0**-HIDDEN_BITS / scale.step)
        for layer, (width, outputs) in enumerate(self.shapes):
            error += math.sqrt(outputs) / 2 * np.sqrt(inner[layer].squares)
            if layer:
                error += hidden * np.sqrt(each.delta_squares[layer] * width)
        room = np.maximum(scale.limit * FLOAT_MARGIN - error.sum(axis=1), 0.0) * scale.step
        shrink = np.minimum(1.0, room / np.maximum(length, TINY))
        part = (weights * own).max(axis=1)
        shrink = np.minimum(shrink, LARGEST_PART * scale.step / np.maximum(part, TINY))
        return np.asarray(weights * shrink[:, None])


def _singles(points: tuple[Floats, ...]) -> Singles:
    """The public points in float32, [points, dimension], cut to what `LARGEST_WEIGHT` says."""
    found = np.empty((len(points), len(points[0])), np.float32)
    for row, point in zip(found, points, strict=True):
        row[:] = point
    return np.asarray(np.clip(found, -LARGEST_WEIGHT, LARGEST_WEIGHT, out=found))


def _fitted(
    each: Pass, weights: Floats, inner: list[Inner], bits: list[int], present: Flags, scale: Scale
) -> list[Floats]:
    """Integer deltas per layer, [records, points, width], the first layer's one for all points; zero for absent and
    failing records."""
    kept = present & each.sound & np.isfinite(each.norm).all(axis=1) & np.isfinite(weights).all(axis=1)
    weights = np.where(kept[:, None], weights, 0.0)
    exact = []
    for layer, (delta, b) in enumerate(zip(each.deltas, bits, strict=True)):
        whole = delta * (weights * (2.0**-b / scale.step)).astype(delta.dtype)[:, :, None]
        np.rint(np.clip(whole, -LARGEST_DELTA, LARGEST_DELTA, out=whole), out=whole)
        if layer == 0 and whole.shape[1] == 2:
            # The first layer's input is common to both points: their deltas, exact in float32, meet before the product.
            whole = whole[:, :1] - whole[:, 1:]
        exact.append(whole.astype(np.float64))
    lengths = _lengths(exact, inner)
    kept &= (lengths >= 0) & (lengths <= scale.limit * scale.limit)
    return [_only(kept, whole) for whole in exact]


def _only(kept: Flags, whole: Floats) -> Floats:
    """Zero for all others. Not a product: a weight beyond float32 times a delta of zero is not a number, nor is zero
    times that, and one such record would make the sum of all of them none."""
    return np.where(kept[:, None, None], whole, 0.0)


def _quantised(activations: Array) -> Floats:
    """Hidden activations as integers; what is too large is cut, for the deltas' norm check does not depend on it."""
    scaled = activations * activations.dtype.type(2.0**HIDDEN_BITS)
    limit = scaled.dtype.type(LARGEST_HIDDEN)
    np.rint(np.clip(scaled, -limit, limit, out=scaled), out=scaled)
    return np.asarray(scaled, np.float64)


def _distance(each: Pass) -> Floats:
    """|g_i − g′_i| by the formula of this module's head."""
    total: Floats = np.zeros(len(each.sound))
    for layer, (a, delta) in enumerate(zip(each.activations, each.deltas, strict=True)):
        change = delta[:, 0] - delta[:, 1]
        total += _dots(change, change) * each.activation_squares[layer][:, 0]
        if layer:
            moved = a[:, 0] - a[:, 1]
            total += each.delta_squares[layer][:, 1] * _dots(moved, moved)
            total += 2 * _dots(change, delta[:, 1]) * _dots(a[:, 0], moved)
    return np.asarray(np.sqrt(np.maximum(total, 0.0)))


def _dots(left: Array, right: Array) -> Floats:
    """Over the last axis."""
    return np.asarray(np.vecdot(left, right), np.float64)


def _inner(sources: list[Array], bits: list[int], squared: Floats) -> list[Inner]:
    """Per layer |A|², |A′|² and ⟨A, A′⟩ with the bias's constant input, as exact integers."""
    found = []
    for layer, (a, b) in enumerate(zip(sources, bits, strict=True)):
        one = 1 << (2 * b)
        squares = (_dots(a, a) if layer else squared).astype(np.int64) + one
        cross = _dots(a[:, 0], a[:, 1]).astype(np.int64) + one if a.shape[1] == 2 else squares[:, 0]
        found.append(Inner(squares, cross))
    return found


def _lengths(deltas: list[Floats], inner: list[Inner]) -> Integers:
    """Exact squared norms of the integer terms; −1 where one could not be computed exactly."""
    total = np.zeros(len(deltas[0]), np.int64)
    inexact = np.zeros(len(total), np.bool_)
    for d, known in zip(deltas, inner, strict=True):
        products = [(_dots(d[:, point], d[:, point]), known.squares[:, point], 1) for point in range(d.shape[1])]
        if d.shape[1] == 2:
            products.append((_dots(d[:, 0], d[:, 1]), known.cross, -2))
        for product, gram, times in products:
            # Squares below 2^53 make every partial sum of a product exact (Cauchy and Schwarz); four layers' terms of
            # weight 1, 1 and 2 below 2^58 stay inside 63 bits.
            # Written so that a nan is inexact too.
            inexact |= ~((product < EXACT) & (np.abs(product) * np.abs(gram) < 2.0**58))
            total += times * np.where(inexact, 0, product).astype(np.int64) * gram
    return np.where(inexact, -1, total)
