"""A party's answer to a query: draw the batch in secret, clip, encode exactly, sum.

Parties know queries, not algorithms: a query is a round and the points at which to evaluate; clip norms, sampler and
noise come from the run's `Mechanism` alone, so nothing the coordinator sends can widen what a record contributes. The
answer is an integer vector on the lattice of the round's noise, ready to be shared over the ring.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from parley.federation.question import LocalFit
from parley.learning.encoding import Scale, fraction_bits
from parley.learning.engine import Engine, Here
from parley.learning.errors import QueryError
from parley.learning.frame import Frame
from parley.learning.local import MARGIN, constants, require_reach
from parley.learning.local import fit as fit_locally
from parley.learning.models import Constant, Linear, Model
from parley.learning.records import Records
from parley.mpc.errors import MpcError
from parley.mpc.parts import JOINT, NoiseParts
from parley.mpc.ring import Lattice
from parley.privacy.errors import PrivacyError
from parley.privacy.mechanism import Mechanism
from parley.privacy.randomness import Randomness
from parley.privacy.sampling import Batch, require_in_range

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FRAMED = {
    "framed gradient": ("gradient", "plain"),
    "framed norms": ("norms", "plain"),
    "means": ("means", "plain"),
    "absolute means": ("means", "absolute"),
    "square means": ("means", "square"),
}
"""Kinds of queries whose first two points are a frame's shift and scale, and what they ask in the frame."""
KINDS = ("gradient", "losses", "norms", "solution", *FRAMED)
MOST_CANDIDATES = 64
SMALLEST_SCALE = 2.0**-40


@dataclass(frozen=True)
class Query:
    """What the coordinator asks in one round: points at which to evaluate, θ_t and, for DDP-SRM, θ_{t−1}."""

    round_index: int
    points: tuple[Floats, ...]
    kind: str = "gradient"
    """Or `losses`: clipped vectors of loss differences between each further point and the first; or `norms`: a
    histogram of gradient norms at one point, each unit counting once, with the weight of the clip norm; or `means` of
    clipped feature rows. Some in a frame (`FRAMED`): linear models only."""
    scale: float = 1.0
    """What gradients, rows or loss differences are multiplied by before the clip; for `norms`, the histogram's top."""
    local: LocalFit | None = None
    """For `solution`: the sum is of the parties' own models, each times its number of records."""

    def unframed(self, columns: int) -> "tuple[Query, Frame | None]":
        """What is asked in the frame, and the frame: the first `columns` numbers of the first two points."""
        if self.kind not in FRAMED:
            return self, None
        if len(self.points) < 2:
            raise QueryError(f"{self.kind} need a frame: its shift and its scale are the first two points")
        kind, form = FRAMED[self.kind]
        shift, scale = (point[:columns] for point in self.points[:2])
        return replace(self, kind=kind, points=self.points[2:]), Frame(shift, scale, form)


@dataclass(frozen=True)
class Encoding:
    """The lattices of a run: public, the same for all parties and both servers."""

    mechanism: Mechanism
    fraction_bits: int
    scale_bits: int
    parts: NoiseParts = JOINT

    @classmethod
    def of(cls, mechanism: Mechanism, scale_bits: int, largest_limit: int, parts: NoiseParts = JOINT) -> "Encoding":
        """The finest lattice on which every release of the run fits, from public numbers only."""
        rounds = {0, mechanism.releases - 1}
        bits = 24
        for index in rounds:
            drawn = sum(mechanism.sampler(cohort.party, index).length for cohort in mechanism.cohorts)
            bound = mechanism.sensitivity(index) / 2
            sigma = mechanism.noise_deviation(index)
            bits = min(bits, fraction_bits(drawn, bound, sigma, scale_bits, largest_limit, parts))
        return cls(mechanism, bits, scale_bits, parts)

    def lattice(self, round_index: int) -> Lattice:
        """Refuses a round whose sum could leave the ring, or whose step is none to count with."""
        lattice = Lattice(self.mechanism.noise_deviation(round_index), self.fraction_bits, self.scale_bits, self.parts)
        samplers = [self.mechanism.sampler(cohort.party, round_index) for cohort in self.mechanism.cohorts]
        lattice.check_range(sum(each.length for each in samplers), self.mechanism.sensitivity(round_index) / 2)
        require_in_range("the lattice's step", lattice.step)
        return lattice

    def scale(self, party: str, round_index: int) -> Scale:
        """How long a record's term may be in a round, by the bound that its noise is accounted with and no other."""
        length = self.mechanism.sampler(party, round_index).length
        return Scale.of(self.lattice(round_index), self.mechanism.clip.contribution_bound(round_index), length)


@dataclass
class Contributor:
    """One party's side of a run."""

    party: str
    records: Records
    model: Model
    encoding: Encoding
    randomness: Randomness
    engine: Engine | None = None
    """Who computes; none is this process."""
    last_round: int = -1
    """A second answer to one round would be a second exposure that nothing accounts: refused."""
    drawn: tuple[int, Batch] | None = None
    """The newest round's batch: the same one where a cluster was away, and nothing was answered."""
    framed: tuple[Frame, Records] | None = None
    """The records as the last frame shows them."""
    counting: dict[bool, tuple[Lattice, Scale]] = field(default_factory=dict)
    """By whether a round is after the first: all of those count alike."""

    def __post_init__(self) -> None:
        mechanism = self.encoding.mechanism
        units = mechanism.sampler(self.party, 0).units
        if units != self.records.units:
            raise QueryError(
                f"{self.party} holds {self.records.units:,} units and the run counts {units:,}: correct the manifest"
            )
        if mechanism.unit.column != self.records.unit_column:
            raise QueryError(
                f"the run protects {mechanism.unit.name} and the records are grouped by "
                f"{self.records.unit_column or 'row'}: load them with the run's unit"
            )

    def check(self, query: Query) -> None:
        """Refuse what this run's mechanism or model does not admit. Reads public facts only, never a record.

        Whatever could be refused is refused here: once it has passed, a question is answered whatever the records are.
        """
        try:
            self._check(query)
        except (MpcError, PrivacyError) as error:
            raise QueryError(str(error)) from None

    def _check(self, query: Query) -> None:
        mechanism, index = self.encoding.mechanism, query.round_index
        if index <= self.last_round:
            raise QueryError(f"round {index} was answered already: resend what was stored, never compute it again")
        if not (SMALLEST_SCALE <= query.scale <= 1 / SMALLEST_SCALE):
            raise QueryError(f"the query's scale is {query.scale}: use {SMALLEST_SCALE} to {1 / SMALLEST_SCALE:g}")
        if query.kind not in KINDS:
            raise QueryError(f"no query of kind {query.kind!r}: use {', '.join(KINDS)}")
        for point in query.points:
            if point.shape != (self.model.dimension,) or not np.isfinite(point).all():
                raise QueryError(f"a point must have {self.model.dimension:,} finite numbers: the run has diverged")
        if query.kind in FRAMED and not isinstance(self.model, Linear):
            raise QueryError(f"{query.kind} are asked of linear models only")
        query, frame = query.unframed(self.records.rows.dimension)
        if frame is not None:
            frame.check(self.records.rows.dimension)
        terms, (_, scale) = mechanism.clip.terms(index), self._counting(index)
        if query.kind == "means" and (terms.points != 1 or query.points):
            raise QueryError("feature rows are averaged at no point, under a single clip norm")
        if query.kind == "norms" and (terms.points != 1 or len(query.points) != 1):
            raise QueryError("gradient norms are counted at one point, under a single clip norm")
        if query.kind == "gradient" and len(query.points) != terms.points:
            raise QueryError(f"round {index} evaluates at {terms.points} points, the query has {len(query.points)}")
        if query.kind == "losses" and (terms.points != 1 or not 2 <= len(query.points) <= MOST_CANDIDATES):
            raise QueryError(f"losses are compared at 2 to {MOST_CANDIDATES} points, under a single clip norm")
        if query.kind == "solution":
            self._check_solution(query, mechanism.clip.contribution_bound(index), scale)

    def batch_length(self, index: int) -> int:
        """How many records a round's sum is computed over, absent ones among them: a public number."""
        return self.encoding.mechanism.sampler(self.party, index).length * self.records.records_per_unit

    @np.errstate(all="ignore")
    def contribution(self, query: Query) -> Integers:
        """int64[dimension] in steps of the round's lattice. Call once per round.

        Total: a record whose arithmetic fails counts as zero, and no record makes this raise, or warn.
        """
        self.check(query)
        mechanism, index = self.encoding.mechanism, query.round_index
        query, frame = query.unframed(self.records.rows.dimension)
        terms = mechanism.clip.terms(index).scaled(query.scale if query.kind in ("gradient", "means") else 1.0)
        lattice, scale = self._counting(index)
        held = self._seen(frame)
        # Frames are of linear models, which no other process computes: `check` refuses them for all others.
        engine = Here(held, self.model) if frame or self.engine is None else self.engine
        self.last_round = index
        if query.kind == "solution":
            return self._solution(query, lattice, scale)
        if self.drawn is None or self.drawn[0] != index:
            self.drawn = index, mechanism.draw(self.party, index, self.randomness)
        batch = self._counting_units(self.drawn[1])
        if query.kind == "losses":
            return engine.losses(batch, query.points, query.scale, lattice, scale)
        if query.kind == "norms":
            return engine.norms(batch, query.points[0], query.scale, scale)
        if query.kind == "means":
            columns = held.rows.dimension
            rows = Here(held, Linear(columns, Constant()))
            found = rows.gradients(batch, (np.zeros(columns),), terms, lattice, scale)
            # As long as a model, so that every question of a run but the histograms has one length.
            return np.pad(found, (0, self.model.dimension - columns))
        return engine.gradients(batch, query.points, terms, lattice, scale)

    def _counting_units(self, batch: Batch) -> Batch:
        """The drawn batch, of its public length; a unit whose records count for nothing is never present in it."""
        if self.records.null is None:
            return batch
        return Batch(batch.indices, batch.present & ~self.records.null[batch.indices])

    def _counting(self, index: int) -> tuple[Lattice, Scale]:
        """Lattice and limit of a round; refused if the run has no such round, or none that can be counted."""
        self.encoding.mechanism.sensitivity(index)
        if (index > 0) not in self.counting:
            self.counting[index > 0] = (self.encoding.lattice(index), self.encoding.scale(self.party, index))
        return self.counting[index > 0]

    def _seen(self, frame: Frame | None) -> Records:
        """The records in this frame, computed once for all rounds that keep it."""
        if frame is None:
            return self.records
        if self.framed is None or not frame.same_as(self.framed[0]):
            self.framed = (frame, replace(self.records, rows=frame.rows(self.records.rows)))
        return self.framed[1]

    def _check_solution(self, query: Query, bound: float, scale: Scale) -> None:
        """Refused unless the mechanism pays for the sensitivity of a fitted model."""
        count = len(self.records.rows)
        if query.local is None or not isinstance(self.model, Linear):
            raise QueryError("a local solution needs a linear model and a description of the fit")
        if self.encoding.mechanism.releases != 1 or self.encoding.mechanism.sampler(self.party, 0).rate != 1:
            raise QueryError("a local solution reads every record once: one release, of all records")
        require_reach(self.records, query.local)
        lipschitz, smoothness = constants(self.model, query.local.reach)
        needed = count * query.local.sensitivity(lipschitz, smoothness, count)
        rounding = 2 * math.sqrt(self.model.dimension) * scale.step
        if query.local.rounding(count) > MARGIN / 2:
            raise QueryError(f"{count:,} records in {query.local.steps:,} steps round by too much: use fewer steps")
        if rounding > MARGIN / 2 * needed or needed * (1 + MARGIN) > 2 * bound:
            raise QueryError(
                f"a record moves this party's solution by {needed * (1 + MARGIN):.4g} and the mechanism pays for "
                f"{2 * bound:.4g}: raise the clip norm, or use a finer lattice"
            )

    def _solution(self, query: Query, lattice: Lattice, scale: Scale) -> Integers:
        """This party's own model times its number of records, as `_check_solution` has let through."""
        assert query.local is not None
        assert isinstance(self.model, Linear)
        count = len(self.records.rows)
        found = count * fit_locally(self.records, self.model, query.local, self.randomness)
        # A model that is paid for is no longer than this, and cutting brings no two models further apart.
        most = count * scale.limit * scale.step
        return lattice.encode(np.clip(np.nan_to_num(found, nan=0.0), -most, most))
