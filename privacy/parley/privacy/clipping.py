"""What one unit of privacy may contribute to a released sum.

`MomentumClip` is DDP-SRM (Wang, Jayaraman, Evans and Gu, Algorithm 2 and Remark 4.3): the first release sums
clip(g, C1), every later one (1−γ)·clip(Δg, C2) + γ·clip(g, C1) with Δg = g(θ_t) − g(θ_{t−1}), so that replacing one
unit moves the sum by at most 2·C1, respectively 2·((1−γ)·C2 + γ·C1). `GradientClip` sums clip(g, C) in every release.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from parley.privacy.errors import InvalidParameterError
from parley.privacy.sampling import require_in_range, store_float

Gradients = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def clip_rows(rows: Gradients, norm: float) -> Gradients:
    """Scale each row (float64[units, dimension]) to length at most `norm`, certainly and not up to rounding.

    A float64 sum of d squares, its root and the product are off by at most (d/2 + 4) units in the last place, so the
    target is lowered by more than that. A row that is not finite contributes zero: absence would be visible.
    """
    if rows.ndim != 2:
        raise InvalidParameterError(f"gradients have {rows.ndim} axes: give one row per unit of privacy")
    finite: Flags = np.all(np.isfinite(rows), axis=1, keepdims=True)
    safe = np.where(finite, rows, 0.0)
    # The largest entry is taken out first: its square may overflow, or vanish.
    largest = np.abs(safe).max(axis=1, initial=0.0)
    unit = safe / np.where(largest > 0, largest, 1.0)[:, None]
    lengths = np.sqrt(np.einsum("ij,ij->i", unit, unit))
    target = norm * (1 - (rows.shape[1] + 16) * 2.0**-52)
    with np.errstate(over="ignore"):
        beyond = largest * lengths > target
    scaled = unit * (target / np.where(lengths > 0, lengths, 1.0))[:, None]
    return np.where(beyond[:, None], scaled, safe)


@dataclass(frozen=True)
class Terms:
    """What one unit contributes to one release: α·clip(g − g′, C2) + β·clip(g, C1), g′ at the previous iterate.

    The one place that says so: sensitivity, the party's exact integers and the reference below all read it here.
    """

    difference_weight: float
    """α, 1 − γ after the first release of DDP-SRM and 0 wherever there is one point"""
    difference_norm: float
    """C2"""
    gradient_weight: float
    """β"""
    gradient_norm: float
    """C1"""

    @property
    def points(self) -> int:
        """How many iterates the term is evaluated at."""
        return 2 if self.difference_weight else 1

    @property
    def bound(self) -> float:
        """The largest norm of the term: α·C2 + β·C1."""
        return self.difference_weight * self.difference_norm + self.gradient_weight * self.gradient_norm

    def scaled(self, scale: float) -> "Terms":
        """Of s·g: clip(s·g, C) = s·clip(g, C/s), so the bound stays."""
        return Terms(
            self.difference_weight * scale,
            self.difference_norm / scale,
            self.gradient_weight * scale,
            self.gradient_norm / scale,
        )

    def of(self, gradients: Gradients, previous: Gradients | None) -> Gradients:
        """Each unit's term in real numbers, float64[units, dimension]; `previous` are the gradients of the same units
        at the previous iterate.
        """
        if not self.difference_weight:
            return self.gradient_weight * clip_rows(gradients, self.gradient_norm)
        if previous is None or previous.shape != gradients.shape:
            raise InvalidParameterError(
                "a recursive release needs the same units' gradients at the previous iterate too"
            )
        # Infinity minus infinity is not a number, and contributes zero.
        with np.errstate(invalid="ignore", over="ignore"):
            differences = gradients - previous
        terms = self.difference_weight * clip_rows(differences, self.difference_norm)
        terms += self.gradient_weight * clip_rows(gradients, self.gradient_norm)
        usable: Flags = np.all(np.isfinite(differences) & np.isfinite(gradients), axis=1, keepdims=True)
        return np.where(usable, terms, 0.0)


@dataclass(frozen=True)
class GradientClip:
    """One clipped gradient per unit: DP-SGD, DP-GD and their kin."""

    norm: float
    kind: ClassVar[str] = "gradient"
    extra_releases: ClassVar[int] = 0

    def __post_init__(self) -> None:
        store_float(self, "norm", "clip norm", require_in_range)

    def terms(self, round_index: int) -> Terms:
        """One unit's term of that release."""
        return Terms(0.0, 1.0, 1.0, self.norm)

    def contribution_bound(self, round_index: int) -> float:
        """The largest norm of one unit's term."""
        return self.terms(round_index).bound

    def as_json(self) -> dict[str, Any]:
        """The canonical form that ledgers and manifests keep."""
        return {"kind": self.kind, "norm": self.norm}


@dataclass(frozen=True)
class MomentumClip:
    """The two clipped terms of DDP-SRM."""

    gradient_norm: float
    """C1"""
    difference_norm: float
    """C2"""
    gamma: float
    """γ, the weight of the fresh gradient"""
    kind: ClassVar[str] = "recursive-momentum"
    extra_releases: ClassVar[int] = 1

    def __post_init__(self) -> None:
        store_float(self, "gradient_norm", "clip norm C1", require_in_range)
        store_float(self, "difference_norm", "clip norm C2", require_in_range)
        store_float(self, "gamma", "gamma", require_in_range)
        if self.gamma > 1:
            raise InvalidParameterError(f"gamma is {self.gamma}: give a number above 0 and at most 1")

    @property
    def evaluations(self) -> int:
        """Gradients of one unit in a release after the first: a difference of weight 0 needs no second point."""
        return 1 if self.gamma == 1 else 2

    def terms(self, round_index: int) -> Terms:
        """One unit's term of that release."""
        if round_index == 0:
            return Terms(0.0, 1.0, 1.0, self.gradient_norm)
        return Terms(1 - self.gamma, self.difference_norm, self.gamma, self.gradient_norm)

    def contribution_bound(self, round_index: int) -> float:
        """The largest norm of one unit's term: C1 in the first release, (1−γ)·C2 + γ·C1 after it."""
        return self.terms(round_index).bound

    def as_json(self) -> dict[str, Any]:
        """The canonical form that ledgers and manifests keep."""
        return {
            "kind": self.kind,
            "gradient_norm": self.gradient_norm,
            "difference_norm": self.difference_norm,
            "gamma": self.gamma,
        }


Clip = GradientClip | MomentumClip


def clip_from_json(body: dict[str, Any]) -> Clip:
    """The inverse of `as_json`; anything else is refused."""
    match body:
        case {"kind": GradientClip.kind, "norm": norm, **rest} if not rest:
            return GradientClip(norm)
        case {
            "kind": MomentumClip.kind,
            "gradient_norm": gradient_norm,
            "difference_norm": difference_norm,
            "gamma": gamma,
            **rest,
        } if not rest:
            return MomentumClip(gradient_norm, difference_norm, gamma)
    raise InvalidParameterError(
        "clip: give kind gradient with norm, or recursive-momentum with its two norms and gamma"
    )
