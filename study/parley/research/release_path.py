"""The product's own training as an audit sees it: a party's `Contributor`, the coordinator's DDP-SRM, the servers' law.

Everything between the records and the coordinator is the code that a federation runs: the batch, the clip and the exact
integers come from `party`, the steps from `coordinator`, the noise has the law of the two servers, bit for bit
(parley.mpc.clear), on the lattice that data and noise share. Only the network and the sharing are left out, which
change nothing that is released (tests/study/test_simulation.py). A deliberate fault replaces one of the parts.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Plan
from parley.algorithms.registry import build, query_of
from parley.algorithms.regularisers import Regulariser
from parley.learning import records as party_records
from parley.learning.contributor import Contributor, Encoding
from parley.learning.models import Linear, Logistic, Model
from parley.learning.rows import DenseRows
from parley.mpc.clear import ClearSampler
from parley.mpc.randomness import Csprng
from parley.mpc.ring import Integers, Lattice
from parley.mpc.tables import load
from parley.privacy.audit import Records, Transcript
from parley.privacy.clipping import MomentumClip
from parley.privacy.errors import InvalidParameterError
from parley.privacy.mechanism import Mechanism
from parley.privacy.randomness import Randomness, SystemRandomness

Floats = NDArray[np.float64]
FRACTION_BITS = 16
TABLES = load("strips", "standard")


class NoiseSource(Protocol):
    """Noise of a released sum, in lattice steps, each sample used once."""

    def release(self, lattice: Lattice, count: int) -> Integers:
        """`count` fresh samples."""
        ...


def servers_noise() -> ClearSampler:
    """The law of what the two servers sample together, from the operating system's entropy: all that a claim counts
    where neither adds any of its own, so the noise that is easiest to see through.
    """
    return ClearSampler(TABLES, Csprng.from_system())


@dataclass(frozen=True)
class PartyEncoding(Encoding):
    """Lattices of the accounted mechanism, under a party that does what `mechanism` says: a fault where they differ."""

    accounted: Mechanism = field(kw_only=True)

    def lattice(self, round_index: int) -> Lattice:
        deviation = self.accounted.noise_deviation(round_index)
        return Lattice(deviation, self.fraction_bits, self.scale_bits, self.parts)


class LogisticTraining:
    """A whole training by one party with the paper's step size; implements `parley.privacy.audit.ReleasePath`.

    `actual` is what the party really does where that differs from the accounted mechanism, `openings` how often the
    first sum is opened.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        noise: NoiseSource,
        smoothness: float,
        actual: Mechanism | None = None,
        openings: int = 1,
        source: Randomness | None = None,
    ) -> None:
        clip = mechanism.clip
        if not isinstance(clip, MomentumClip):
            raise InvalidParameterError("this path trains with DDP-SRM: give the mechanism a MomentumClip")
        self.mechanism, self._noise, self._openings = mechanism, noise, openings
        self._source = source or SystemRandomness()
        self._party = mechanism.cohorts[0].party
        bits = TABLES.format.scale_bits
        self._encoding = (
            Encoding(mechanism, FRACTION_BITS, bits)
            if actual is None
            else PartyEncoding(actual, FRACTION_BITS, bits, accounted=mechanism)
        )
        self._parameters = {
            "gradient_norm": clip.gradient_norm,
            "difference_norm": clip.difference_norm,
            "gamma": clip.gamma,
            "zeta": clip.difference_norm,
            "smoothness": smoothness,
            "regulariser": Regulariser("nonconvex", 0.001),
        }
        self._plan = Plan(mechanism.sampler(self._party, 0).mean_batch, mechanism.steps, clip)
        self._loaded: tuple[Records, party_records.Records] | None = None

    def model(self, held: party_records.Records) -> Model:
        """What is trained."""
        return Linear(held.rows.dimension, Logistic())

    def start(self, model: Model) -> Floats:
        """Where it starts, public."""
        return np.zeros(model.dimension)

    def run(self, records: Records) -> Transcript:
        """Train once; every opening of every round, on the scale of the sum."""
        held = self._held(records)
        model = self.model(held)
        party = Contributor(self._party, held, model, self._encoding, self._source)
        algorithm = build("ddp-srm", self._parameters)
        algorithm.begin(self._plan, self.start(model), 0.0, self._source)
        rounds = []
        for index in range(self.mechanism.releases):
            encoded = party.contribution(query_of(index, algorithm.ask(index)))
            lattice = self._encoding.lattice(index)
            opened = tuple(
                lattice.decode(encoded + self._noise.release(lattice, len(encoded)))
                for _ in range(self._openings if index == 0 else 1)
            )
            rounds.append(opened)
            algorithm.tell(index, opened[0] / self.mechanism.expected_batch(index))
        return Transcript(tuple(rounds))

    def _held(self, records: Records) -> party_records.Records:
        """As a party holds them: whole features, as a schema makes them."""
        if self._loaded is None or self._loaded[0] is not records:
            if not np.array_equal(records.features, np.rint(records.features)):
                raise InvalidParameterError("an audit's features must be whole numbers: a party's are, by its schema")
            rows = DenseRows.of(records.features.astype(np.int64), 0)
            self._loaded = (records, party_records.Records(rows, records.labels))
        return self._loaded[1]
