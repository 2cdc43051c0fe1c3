"""Models: losses, residuals and per-record gradients, in NumPy.

A model is what the manifest names; a party executes only what is built in. `Linear` covers all models whose gradient
is r_i ⊗ x_i with a residual r: logistic, softmax, linear and Huber regression. Their per-record norms are |r_i|·|x_i|
in closed form (gradients.md of the design; Goodfellow's observation for dense layers), so that clipping costs nothing
and no per-record gradient exists. The multilayer perceptron is in `parley.learning.perceptron`.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parley.learning.encoding import Scale, fit, to_integers
from parley.learning.errors import SchemaError
from parley.learning.rows import Block
from parley.mpc.ring import LARGEST_LIMIT
from parley.privacy.clipping import Terms

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Model(Protocol):
    """What a party and an evaluator need of a model."""

    @property
    def dimension(self) -> int:
        """Number of parameters: the length of every vector in the run."""
        ...

    @property
    def largest_limit(self) -> int:
        """Lattice steps a record's term may span: what its integer arithmetic has room for."""
        ...

    def initial(self, words: NDArray[np.uint64]) -> Floats:
        """A public starting point from public random words, `dimension` of them."""
        ...

    def contribution(
        self, block: Block, targets: Floats, present: Flags, points: tuple[Floats, ...], terms: Terms, scale: Scale
    ) -> Integers:
        """Σ over the present records of their clipped terms, in lattice steps, exactly."""
        ...

    def gradients(self, block: Block, targets: Floats, point: Floats) -> Floats:
        """Per-record gradients, float64[records, dimension]: for units of several records, and for tests."""
        ...

    def gradient_norms(self, block: Block, targets: Floats, point: Floats) -> Floats:
        """float64[records]"""
        ...

    def losses(self, block: Block, targets: Floats, point: Floats) -> Floats:
        """float64[records]"""
        ...

    def scores(self, block: Block, point: Floats) -> Floats:
        """Raw outputs, float64[records, outputs]."""
        ...


class Residual(Protocol):
    """A loss of scores s and targets y: its derivative in s is the residual."""

    @property
    def outputs(self) -> int: ...

    def residuals(self, scores: Floats, targets: Floats) -> Floats: ...

    def losses(self, scores: Floats, targets: Floats) -> Floats: ...


@dataclass(frozen=True)
class Logistic:
    """ℓ = log(1 + e^s) − y·s for y in {0, 1} (the core paper's 6.1 with the minus sign that it lacks)."""

    outputs: int = 1

    def residuals(self, scores: Floats, targets: Floats) -> Floats:
        return sigmoid(scores) - targets[:, None]

    def losses(self, scores: Floats, targets: Floats) -> Floats:
        s = scores[:, 0]
        return np.asarray(np.logaddexp(0.0, s) - targets * s)


@dataclass(frozen=True)
class Softmax:
    """ℓ = log Σ_k e^{s_k} − s_y for classes y = 0 … outputs − 1."""

    outputs: int

    def residuals(self, scores: Floats, targets: Floats) -> Floats:
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(p)), targets.astype(np.int64)] -= 1.0
        return np.asarray(p)

    def losses(self, scores: Floats, targets: Floats) -> Floats:
        top = scores.max(axis=1)
        total = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
        return np.asarray(total - scores[np.arange(len(scores)), targets.astype(np.int64)])


@dataclass(frozen=True)
class Squared:
    """ℓ = (s − y)² / 2"""

    outputs: int = 1

    def residuals(self, scores: Floats, targets: Floats) -> Floats:
        return scores - targets[:, None]

    def losses(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray((scores[:, 0] - targets) ** 2 / 2)


@dataclass(frozen=True)
class Huber:
    """ℓ = e²/2 for |e| ≤ h, else h·(|e| − h/2), with e = s − y (Zhang, Zheng, Mou and Wang, section 4)."""

    threshold: float = 1.0
    outputs: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.threshold < np.inf:
            raise SchemaError(f"the Huber threshold is {self.threshold}: give a finite number above 0")

    def residuals(self, scores: Floats, targets: Floats) -> Floats:
        return np.clip(scores - targets[:, None], -self.threshold, self.threshold)

    def losses(self, scores: Floats, targets: Floats) -> Floats:
        e = np.abs(scores[:, 0] - targets)
        h = self.threshold
        return np.where(e <= h, e * e / 2, h * (e - h / 2))


@dataclass(frozen=True)
class Constant:
    """ℓ = s: its gradient is the feature row itself, whose clipped mean a frame is made of."""

    outputs: int = 1

    def residuals(self, scores: Floats, targets: Floats) -> Floats:
        return np.ones_like(scores)

    def losses(self, scores: Floats, targets: Floats) -> Floats:
        return scores[:, 0]


@dataclass(frozen=True)
class Linear:
    """Scores X·Θ, gradients r ⊗ x; Θ is float64[features, outputs], flattened row by row."""

    features: int
    residual: Residual

    @property
    def dimension(self) -> int:
        return self.features * self.residual.outputs

    @property
    def largest_limit(self) -> int:
        return LARGEST_LIMIT

    def initial(self, words: NDArray[np.uint64]) -> Floats:
        return np.zeros(self.dimension)

    def contribution(
        self, block: Block, targets: Floats, present: Flags, points: tuple[Floats, ...], terms: Terms, scale: Scale
    ) -> Integers:
        """Σ x_i ⊗ (α·clip(r − r′, C2/|x|) + β·clip(r, C1/|x|)): both points in one product, one product back."""
        k = self.residual.outputs
        inverse = block.norms.inverse.take(block.indices)
        with np.errstate(all="ignore"):  # what overflows is not finite, and such a record contributes zero
            if k == 1:
                # The residual of a scalar score acts entry by entry: both points at once.
                residuals = self.residual.residuals(block.dot(np.stack(points, axis=1)), targets)
                fresh, difference = residuals[:, :1], residuals[:, :1] - residuals[:, 1:] if len(points) > 1 else None
            else:
                fresh, *before = (self.residual.residuals(self.scores(block, point), targets) for point in points)
                difference = fresh - before[0] if before else None
            wanted = _clip(fresh, terms.gradient_norm * inverse, terms.gradient_weight)
            if difference is not None:
                wanted += _clip(difference, terms.difference_norm * inverse, terms.difference_weight)
            wanted *= 2.0**-block.bits / scale.step
            sound = present & np.isfinite(wanted).all(axis=1) if k > 1 else present & np.isfinite(wanted[:, 0])
        whole = fit(np.where(sound[:, None], np.rint(wanted), 0.0), block.norms, block.indices, scale.limit)
        return to_integers(block.combine(whole)).ravel()

    def gradients(self, block: Block, targets: Floats, point: Floats) -> Floats:
        residual = self.residual.residuals(self.scores(block, point), targets)
        rows = block.dense() * 2.0**-block.bits
        return np.asarray((rows[:, :, None] * residual[:, None, :]).reshape(len(rows), self.dimension))

    def gradient_norms(self, block: Block, targets: Floats, point: Floats) -> Floats:
        residual = self.residual.residuals(self.scores(block, point), targets)
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", residual, residual)) / block.norms.inverse[block.indices])

    def losses(self, block: Block, targets: Floats, point: Floats) -> Floats:
        return self.residual.losses(self.scores(block, point), targets)

    def scores(self, block: Block, point: Floats) -> Floats:
        return block.dot(point.reshape(self.features, self.residual.outputs))


def sigmoid(scores: Floats) -> Floats:
    """1 / (1 + e^−s); tanh neither overflows nor needs two branches."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * scores))


def _clip(residuals: Floats, reach: Floats, weight: float) -> Floats:
    """`weight` times rows of residuals shortened to `reach` = C/|x|: r ⊗ x clipped to C; nan if infinite."""
    if residuals.shape[1] == 1:
        r = residuals[:, 0]
        lengths = np.abs(r)
        return np.asarray(r * (weight * reach / np.maximum(lengths, reach)))[:, None]
    lengths = np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
    return np.asarray(residuals * (weight * reach / np.maximum(lengths, reach))[:, None])
