"""Composition of lattice losses, and δ(ε) and ε(δ) of the result. Needs the `accounting` extra.

Losses of independent releases add, so masses convolve; a fast Fourier transform and a power do all releases at once.
The transform's rounding error is absolute, while a δ of 1e-9 is not, so the masses are tilted first by exp(θ·loss) at
the θ of Chernoff's bound: what is computed then has the size of the δ that is asked for, and everything that is
charged for rounding, wrap-around and cut tails is relative to it (docs/privacy-wor-profile.md, § 5).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from parley.privacy.errors import InvalidParameterError
from parley.privacy.pairs import Floats, LatticeLoss, points

WINDOW_TAIL = 1e-10
"""Mass of the tilted distribution that may lie outside of the window on each side."""
LARGEST_TRANSFORM = 1 << 22


class LatticeTooFine(InvalidParameterError):
    """The composed loss spans more points of this lattice than a transform may have; a coarser one may do."""


@dataclass(frozen=True)
class Part:
    """One lattice loss, composed with itself `count` times."""

    loss: LatticeLoss
    count: int

    @cached_property
    def _log_masses(self) -> tuple[Floats, Floats]:
        present = self.loss.masses > 0
        return self._points[present], np.log(self.loss.masses[present])

    @property
    def _points(self) -> Floats:
        return points(self.loss.step, self.loss.first, self.loss.first + len(self.loss.masses))

    def mean_square(self) -> float:
        """E[loss²] of one release, a scale only."""
        return float(np.sum(self.loss.masses * self._points**2))

    def log_moment(self, order: float) -> float:
        """log E[exp(order · loss)] over the finite losses, of one release."""
        losses, log_masses = self._log_masses
        return float(logsumexp(order * losses + log_masses))

    def tilted(self, order: float, size: int) -> Floats:
        """The masses times exp(order · loss), normalised and wrapped around `size` points."""
        with np.errstate(divide="ignore"):
            masses = np.exp(order * self._points + np.log(self.loss.masses) - self.log_moment(order))
        places = (self.loss.first + np.arange(len(masses))) % size
        return np.asarray(np.bincount(places, weights=masses, minlength=size), dtype=np.float64)


@dataclass(frozen=True)
class Window:
    """The composed loss over a stretch of the lattice, tilted by exp(order · loss − cumulant)."""

    losses: Floats
    masses: Floats
    order: float
    cumulant: float
    charge: float
    """What rounding, wrap-around and cut tails may hide, as tilted mass; negative in a lower bound."""
    infinite: float

    def charge_at(self, epsilon: float) -> float:
        """What may be hidden beyond ε: beyond it the tilt is undone by at most this weight."""
        return self.charge * math.exp(min(700.0, self.cumulant - self.order * epsilon))

    def divergence(self, epsilon: float) -> float:
        """δ(ε), charge included."""
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        losses = self.losses[start:]
        weights = np.exp(np.minimum(self.cumulant - self.order * losses, 700.0))
        terms = -np.expm1(epsilon - losses) * weights * self.masses[start:]
        return float(np.sum(terms)) + self.charge_at(epsilon) + self.infinite


class Composition:
    """The total loss of all releases. With `sign` +1 every figure is an upper bound, with −1 a lower bound."""

    def __init__(self, parts: tuple[Part, ...], sign: int = 1) -> None:
        if not parts or len({part.loss.step for part in parts}) > 1:
            raise InvalidParameterError("a composition needs at least one release, all on one lattice")
        self._parts = parts
        self._sign = sign
        self._step = parts[0].loss.step
        self._count = sum(part.count for part in parts)
        self._owed = sum(part.count * part.loss.shift for part in parts)
        self._spread = max(self._step, math.sqrt(sum(part.count * part.mean_square() for part in parts)))
        self._infinite = -math.expm1(sum(part.count * math.log1p(-part.loss.infinite) for part in parts))

    def delta(self, epsilon: float) -> float:
        """δ at the given ε."""
        target = epsilon + self._owed
        order = self._order(lambda log_order: self._cumulant(math.exp(log_order)) - math.exp(log_order) * target)
        return min(1.0, max(0.0, self._window(order).divergence(target)))

    def epsilon(self, delta: float) -> float:
        """The smallest ε ≥ 0 at the given δ; infinite where no finite one is known."""
        if self._infinite >= delta:
            return math.inf
        goal = math.log(delta)
        order = self._order(lambda log_order: (self._cumulant(math.exp(log_order)) - goal) / math.exp(log_order))
        window = self._window(order)
        # A lower bound loses its meaning again far below the answer, where its charge grows: look from above.
        count = len(window.losses)
        scan = np.linspace(count - 1, 0, 65 if self._sign < 0 else 2).astype(int)
        exceeding = [int(i) for i in scan if window.divergence(float(window.losses[i])) > delta]
        if not exceeding:
            return max(0.0, float(window.losses[0]) - self._owed) if self._sign > 0 else 0.0
        low, high = exceeding[0], count - 1
        if low == high:
            return math.inf if self._sign > 0 else max(0.0, float(window.losses[-1]) - self._owed)
        while high - low > 1:
            middle = (low + high) // 2
            if window.divergence(float(window.losses[middle])) > delta:
                low = middle
            else:
                high = middle
        # Between two lattice points the divergence is linear in e^ε, and its charge is largest at the left end.
        left, right = float(window.losses[low]), float(window.losses[high])
        owed = window.charge_at(left)
        at_left = window.divergence(left)
        at_right = window.divergence(right) - window.charge_at(right) + max(owed, window.charge_at(right))
        if not at_right < delta < at_left:
            return max(0.0, (right if self._sign > 0 else left) - self._owed)
        fraction = (at_left - delta) / (at_left - at_right)
        return max(0.0, left + math.log1p(fraction * math.expm1(right - left)) - self._owed)

    def _cumulant(self, order: float) -> float:
        return sum(part.count * part.log_moment(order) for part in self._parts)

    def _order(self, objective: Callable[[float], float]) -> float:
        """The θ of Chernoff's bound. Any θ > 0 is sound; a poor one only makes the charge larger."""
        # A loss of bounded range would send θ to infinity and leave a window of a few points; 50 deviations are ample.
        centre = -math.log(self._spread)
        found = minimize_scalar(objective, bounds=(centre - 10, centre + 4), method="bounded", options={"xatol": 0.02})
        return math.exp(float(found.x))

    def _window(self, order: float) -> "Window":
        """All losses that matter at the tilt `order`, composed."""
        cumulant = self._cumulant(order)
        margin = -math.log(WINDOW_TAIL)
        # Chernoff's bound on either tail of the tilted loss, at a few distances from the tilt on its natural scale.
        distances = max(order, 1 / self._spread) * _STEPS
        highest = min((self._cumulant(order + extra) - cumulant + margin) / extra for extra in distances)
        lowest = max((cumulant - self._cumulant(order - extra) - margin) / extra for extra in distances)
        low, high = math.floor(lowest / self._step) - 2, math.ceil(highest / self._step) + 2
        size = next_fast_len(max(64, high - low + 1), real=True)
        if size > LARGEST_TRANSFORM:
            raise LatticeTooFine("epsilon is out of reach of this computation: raise the noise or delta")
        spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
        for part in self._parts:
            spectrum *= rfft(part.tilted(order, size)) ** part.count
        places = (low + np.arange(size)) % size
        masses = np.maximum(irfft(spectrum, size)[places], 0.0)
        losses = points(self._step, low, low + size)
        # Higham 2002, Theorem 24.2, for each transform, carried through the power and summed over all points.
        rounding = (self._count + 2) * 16 * math.log2(size) * 2.0**-53 * math.sqrt(size)
        charge = self._sign * (rounding + 2 * WINDOW_TAIL)
        return Window(losses, masses, order, cumulant, charge, self._infinite)


_STEPS = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0])
