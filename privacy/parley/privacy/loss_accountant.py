"""The accountants `pld` and `lower`: privacy-loss distributions on a lattice. Needs scipy (the `accounting` extra).

Both refine the lattice until the answer stands still, so that its error is measured in every call and not assumed.
The mathematics is in docs/privacy-wor-profile.md, the lattices in `pairs`, the convolution in `composition`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from parley.privacy.accountants import Reading, require_delta, require_epsilon, with_overflow
from parley.privacy.composition import Composition, LatticeTooFine, Part
from parley.privacy.event import Event, NeighbouringRelation, SampledGaussian
from parley.privacy.pairs import (
    LatticeLoss,
    Pair,
    attainable_pairs,
    dominating_pairs,
    loss_range,
    optimistic,
    pessimistic,
    root_mean_square_loss,
)
from parley.privacy.sampling import Sampler

COARSEST = 16
"""Lattice points per root mean square of one release's loss, at first."""
FINEST = {1: 4096, -1: 512}
STARTING_LATTICE, LARGEST_LATTICE = 1 << 17, 1 << 21
"""Lattice points of one release or of the window of all; a finer lattice is not tried."""


@lru_cache(maxsize=64)
def _pairs(sampler: Sampler, noise_multiplier: float, relation: NeighbouringRelation, sign: int) -> tuple[Pair, ...]:
    release = SampledGaussian(sampler, noise_multiplier, 1)
    return (dominating_pairs if sign > 0 else attainable_pairs)(release, relation)


def _pair(part: SampledGaussian, relation: NeighbouringRelation, sign: int, direction: int) -> Pair:
    choices = _pairs(part.sampler, part.noise_multiplier, relation, sign)
    return choices[min(direction, len(choices) - 1)]


@lru_cache(maxsize=256)
def _spread(
    sampler: Sampler, noise_multiplier: float, relation: NeighbouringRelation, sign: int, direction: int
) -> float:
    return root_mean_square_loss(_pair(SampledGaussian(sampler, noise_multiplier, 1), relation, sign, direction))


@lru_cache(maxsize=8)
def _lattice(
    sampler: Sampler,
    noise_multiplier: float,
    relation: NeighbouringRelation,
    sign: int,
    direction: int,
    step: float,
    tail: float,
) -> LatticeLoss:
    pair = _pair(SampledGaussian(sampler, noise_multiplier, 1), relation, sign, direction)
    return (pessimistic if sign > 0 else optimistic)(pair, step, tail)


@dataclass(frozen=True)
class LossAccountant:
    """`pld` with sign +1, dominating every pair of neighbours; `lower` with −1, dominated by one pair."""

    name: str = "pld"
    sign: int = 1

    @property
    def refinement(self) -> float:
        """Stop when a lattice twice as fine changes the answer by less than this; about a third of it is left."""
        return 3e-4 if self.sign > 0 else 3e-3

    @property
    def certifies(self) -> bool:
        """Only what dominates is a guarantee."""
        return self.sign > 0

    def epsilon(self, event: Event, delta: float) -> Reading:
        """The smallest ε at δ."""
        require_delta(delta)

        def solve(room: float) -> float:
            return self._refined(event, room, lambda composed: composed.epsilon(room))

        if not event.releases:
            return Reading(0.0, delta, self.name)
        if self.sign > 0:
            return Reading(with_overflow(event, delta, solve), delta, self.name)
        # Dropped draws can hide a difference as well as show one: a lower bound owes their probability too.
        room = delta + (1 + math.exp(min(700.0, solve(delta)))) * event.overflow_probability
        return Reading(solve(room) if room < 1 else 0.0, delta, self.name)

    def delta(self, event: Event, epsilon: float) -> float:
        """The smallest δ at ε."""
        require_epsilon(epsilon)
        if not event.releases:
            return 0.0
        found = self._refined(event, 1e-6, lambda composed: composed.delta(epsilon))
        if found < 1e-6:
            scale = max(found, 1e-200)
            found = self._refined(event, scale, lambda composed: composed.delta(epsilon))
        overflow = (1 + math.exp(min(epsilon, 700.0))) * event.overflow_probability
        return min(1.0, max(0.0, found + self.sign * overflow))

    def _refined(self, event: Event, scale: float, read: Callable[[Composition], float]) -> float:
        """The worse direction, each on the coarsest lattice at which its answer has settled."""
        directions = max(
            len(_pairs(part.sampler, part.noise_multiplier, event.relation, self.sign)) for part in event.releases
        )
        return max(self._settled(event, scale, direction, read) for direction in range(directions))

    def _settled(self, event: Event, scale: float, direction: int, read: Callable[[Composition], float]) -> float:
        points = min(float(COARSEST), STARTING_LATTICE / self._lattice_size(event, scale, direction, 1.0))
        answer, points = self._first(event, scale, direction, points, read)
        while points < FINEST[self.sign] and math.isfinite(answer):
            points *= 2
            # The composed loss spans some 25 deviations, and one release has its own tails to hold.
            span = max(self._lattice_size(event, scale, direction, points), 25 * math.sqrt(event.count) * points)
            if span > LARGEST_LATTICE:
                break
            try:
                finer = read(self._composition(event, scale, direction, points))
            except LatticeTooFine:
                break
            # Every lattice gives a bound, so the better one stands whatever rounding did to the finer.
            change, answer = abs(finer - answer), min(finer, answer) if self.sign > 0 else max(finer, answer)
            if change <= self.refinement * abs(answer):
                break
        return answer

    def _first(
        self, event: Event, scale: float, direction: int, points: float, read: Callable[[Composition], float]
    ) -> tuple[float, float]:
        """The answer on the finest lattice, from `points` down, that a transform can hold."""
        while True:
            try:
                return read(self._composition(event, scale, direction, points)), points
            except LatticeTooFine:
                if points < COARSEST / 1024:
                    raise
                points /= 4

    def _scale(self, event: Event, direction: int) -> float:
        squares = (
            part.count * _spread(part.sampler, part.noise_multiplier, event.relation, self.sign, direction) ** 2
            for part in event.releases
        )
        return math.sqrt(sum(squares) / event.count)

    def _tail(self, event: Event, scale: float) -> float:
        """What each release may charge as infinite loss: a millionth of δ in all, as a power of ten to be cached."""
        return math.pow(10.0, max(-290, math.floor(math.log10(1e-6 * scale / event.count))))

    def _lattice_size(self, event: Event, scale: float, direction: int, points: float) -> float:
        step = self._scale(event, direction) / points
        widths = []
        for part in event.releases:
            pair = _pair(part, event.relation, self.sign, direction)
            low, high = loss_range(pair, self._tail(event, scale))
            widths.append((high - low) / step)
        return max(widths)

    def _composition(self, event: Event, scale: float, direction: int, points: float) -> Composition:
        step, tail = self._scale(event, direction) / points, self._tail(event, scale)
        parts = tuple(
            Part(
                _lattice(part.sampler, part.noise_multiplier, event.relation, self.sign, direction, step, tail),
                part.count,
            )
            for part in event.releases
        )
        return Composition(parts, self.sign)
