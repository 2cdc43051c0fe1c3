"""What fixes the opening of one sum."""

import hashlib
from dataclasses import dataclass
from typing import Self

from parley.aggregator.noise import batch_lanes
from parley.federation.manifest import Manifest
from parley.mpc.errors import ConfigurationError
from parley.mpc.evidence import MOST_LANES
from parley.mpc.ring import Lattice


@dataclass(frozen=True, kw_only=True)
class Request:
    """What fixes an opening; every field is public and the same on both servers."""

    run: str
    round: int
    dimension: int
    lattice: Lattice
    minimum_parties: int
    most_records: int
    """At most so many records' terms are in the sum, each at most `clip` long: what the range check needs."""
    clip: float
    query: bytes = b""
    """SHA-256 of the question that the parties answer."""
    most_lanes: int = MOST_LANES
    """Of the audited batches that its noise is from. Follows from the manifest, as all of this does."""

    @classmethod
    def of(cls, manifest: Manifest, index: int, length: int, query: bytes) -> Self:
        """Of a round of this run, when `length` numbers answer the question of this digest."""
        return cls(
            run=manifest.run,
            round=index,
            dimension=length,
            lattice=manifest.lattice(index),
            minimum_parties=manifest.minimum_parties,
            most_records=manifest.most_contributions(index),
            clip=manifest.mechanism.clip.contribution_bound(index),
            query=query,
            most_lanes=batch_lanes(manifest.joint_samples),
        )

    def digest(self) -> bytes:
        """Over all fields; a request that makes no sense, or whose sum could leave the ring, has none."""
        self.lattice.check_range(self.most_records, self.clip)
        if self.dimension < 1 or self.round < 0 or self.minimum_parties < 1:
            raise ConfigurationError("an opening needs a dimension, a round and a minimum number of parties")
        fields = (
            self.run, self.round, self.dimension, repr(self.lattice), self.minimum_parties, self.most_records,
            self.clip, self.query.hex(),
        )  # fmt: skip
        return hashlib.sha256(b"parley opening v2" + repr(fields).encode()).digest()
