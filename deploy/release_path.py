"""DDP-SRM on logistic regression in one process, for audits: the coordinator's view without the network.

Batches, clipping and the noise's scale come from the `Mechanism`, as in the federation; the encoding is the lattice of
step σ_t·2^-16 that data and noise share. The noise comes from a `NoiseSource`: by default Gaussians from the operating
system's generator, rounded to the lattice, in whose place the secure computation's sampler is put.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from privacy.audit import Records, Transcript
from privacy.clipping import MomentumClip
from privacy.errors import InvalidParameter
from privacy.mechanism import Mechanism
from privacy.randomness import Randomness, uniform_words

FRACTION_BITS = 16
Floats = npt.NDArray[np.float64]


class NoiseSource(Protocol):
    """Standard normals at scale 2^FRACTION_BITS, as whole numbers, each used once."""

    def lattice_normals(self, count: int) -> Floats:
        """`count` fresh samples, float64 with integer values."""
        ...


class SystemNoise:
    """Box and Muller's transform of uniform words, rounded to the lattice; drawn in blocks for speed."""

    BLOCK = 1 << 16

    def __init__(self, source: Randomness) -> None:
        self._source = source
        self._block: Floats = np.zeros(0)

    def lattice_normals(self, count: int) -> Floats:
        """`count` fresh samples."""
        if len(self._block) < count:
            half = max(self.BLOCK, count) // 2 + 1
            words = uniform_words(self._source, 2 * half) >> np.uint64(11)
            radius = np.sqrt(-2 * np.log((words[:half] + np.uint64(1)) * 2.0**-53))
            angle = words[half:] * (2 * np.pi * 2.0**-53)
            normals = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
            self._block = np.rint(normals * 2.0**FRACTION_BITS)
        taken, self._block = self._block[:count], self._block[count:]
        return taken


class LogisticTraining:
    """A whole training by one party with the paper's step size; implements `privacy.audit.ReleasePath`."""

    def __init__(
        self,
        mechanism: Mechanism,
        noise: NoiseSource,
        source: Randomness,
        smoothness: float,
        regularisation: float = 0.001,
    ) -> None:
        if not isinstance(mechanism.clip, MomentumClip):
            raise InvalidParameter("this path trains with DDP-SRM: give the mechanism a MomentumClip")
        self.mechanism = mechanism
        self._gamma = mechanism.clip.gamma
        self._zeta = mechanism.clip.difference_norm
        self._party = mechanism.cohorts[0].party
        self._noise = noise
        self._source = source
        self._smoothness = smoothness
        self._regularisation = regularisation

    def run(self, records: Records) -> Transcript:
        """Algorithm 2, line by line; the regulariser is public and enters outside of clip and noise."""
        iterate = np.zeros(records.features.shape[1])
        previous = iterate
        estimator = iterate
        openings = []
        for index in range(self.mechanism.releases):
            opened = self.open_sum(index, self.encoded_sum(index, records, iterate, previous))
            openings.append(opened)
            estimator = opened[0] / self.mechanism.expected_batch(index) + (1 - self._gamma) * estimator * (index > 0)
            step = min(
                self._zeta / (self._smoothness * max(float(np.linalg.norm(estimator)), 1e-300)), 0.5 / self._smoothness
            )
            penalty = self._regularisation * 2 * iterate / (1 + iterate**2) ** 2
            previous, iterate = iterate, iterate - step * (estimator + penalty)
        return Transcript(tuple(openings))

    def open_sum(self, index: int, encoded: Floats) -> tuple[Floats, ...]:
        """One opening of the noised sum, as the coordinator decodes it."""
        return (self.decoded(index, encoded + self._noise.lattice_normals(len(encoded))),)

    def decoded(self, index: int, units: Floats) -> Floats:
        """Lattice units back to the scale of the sum."""
        return units * (self.mechanism.noise_deviation(index) * 2.0**-FRACTION_BITS)

    def encoded_sum(self, index: int, records: Records, iterate: Floats, previous: Floats) -> Floats:
        """The batch's clipped terms in lattice units. Each is cut towards zero, which lengthens no term."""
        batch = self.mechanism.draw(self._party, index, self._source)
        features, labels = records.features[batch.indices], records.labels[batch.indices]
        terms = self.terms(index, _gradients(features, labels, iterate), _gradients(features, labels, previous))
        units = np.trunc(terms / (self.mechanism.noise_deviation(index) * 2.0**-FRACTION_BITS))
        return np.asarray(np.sum(units * batch.present[:, None], axis=0), dtype=np.float64)

    def terms(self, index: int, gradients: Floats, previous: Floats) -> Floats:
        """Each unit's term of the sum."""
        return self.mechanism.contributions(index, gradients, previous)


def _gradients(features: Floats, labels: Floats, iterate: Floats) -> Floats:
    margins = np.clip(features @ iterate, -500, 500)
    return np.asarray((1 / (1 + np.exp(-margins)) - labels)[:, None] * features, dtype=np.float64)
