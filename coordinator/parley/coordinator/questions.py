"""A round's question as it travels and as it is kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Algorithm, Ask, Plan
from parley.algorithms.early_stop import BEST, COUNTS, Stopper
from parley.federation.rounds import PIECE_BYTES, point_digest, query_digest
from parley.learning.pictures import Example
from parley.v1 import common_pb2, coordinator_pb2

Floats = NDArray[np.float64]
MOST_INLINE_BYTES = 2 * PIECE_BYTES
"""Of points in one message, of which gRPC takes 4 MiB."""


def no_examples(theta: Floats) -> tuple[Example, ...]:
    """Where there is no public set, or its rows are no pictures."""
    return ()


@dataclass(frozen=True)
class Prepared:
    """What a manifest names, ready to be run (parley.coordinator.preparation)."""

    algorithm: Algorithm
    plan: Plan
    theta: Floats
    """θ_0, from public randomness or a public model file."""
    length: Callable[[Ask], int]
    """How many integers answer a question."""
    evaluate: Callable[[Floats], dict[str, float]]
    """On the public set; empty without one."""
    measure: Callable[[Floats], dict[str, Any]]
    """The finished model on the same: the figures of `evaluate`, and those with intervals that a card has."""
    examples: Callable[[Floats], tuple[Example, ...]] = no_examples
    """Of right and wrong answers on the same, where its rows are pictures."""
    stopper: Stopper | None = None
    """Where the manifest lets the run stop early."""
    close: Callable[[], None] = lambda: None
    """Ends what was started for it: the process of a user's own module."""

    def checkpoint(self) -> dict[str, Floats]:
        """Everything that a restart needs."""
        return self.algorithm.checkpoint() | (self.stopper.checkpoint() if self.stopper else {})

    def restore(self, state: Mapping[str, Floats]) -> None:
        """The inverse of `checkpoint`."""
        if self.stopper:
            self.stopper.restore(state)
        self.algorithm.restore(self.plan, {name: each for name, each in state.items() if name not in (BEST, COUNTS)})


@dataclass(frozen=True)
class Question:
    """One round's question, and the models it is about."""

    round: coordinator_pb2.Round
    """Its points without their data."""
    points: Mapping[bytes, bytes]
    statements: tuple[common_pb2.SignedWord, ...] = ()
    """Both servers' words about the round before."""

    @classmethod
    def of(
        cls, manifest_digest: bytes, index: int, ask: Ask, length: int, statements: Sequence[bytes] = ()
    ) -> "Question":
        data = [np.ascontiguousarray(point, "<f8").tobytes() for point in ask.points]
        digests = [point_digest(each) for each in data]
        local = ask.local
        message = coordinator_pb2.Round(
            index=index,
            kind=ask.kind,
            scale=ask.scale,
            length=length,
            points=[
                coordinator_pb2.Point(digest=digest, size=len(each)) for digest, each in zip(digests, data, strict=True)
            ],
            query_digest=query_digest(manifest_digest, index, ask.kind, ask.scale, digests, length, local),
        )
        if local is not None:
            message.local.CopyFrom(coordinator_pb2.LocalFit(**asdict(local)))
        return cls(message, dict(zip(digests, data, strict=True)), signed_words(statements))

    def for_party(self, held: frozenset[bytes]) -> coordinator_pb2.Round:
        """With the data of the points that the party does not hold, as far as one message goes; it fetches the rest."""
        message = coordinator_pb2.Round()
        message.CopyFrom(self.round)
        room = MOST_INLINE_BYTES
        for point in message.points:
            if point.digest not in held:
                point.data = self.points[point.digest][: min(PIECE_BYTES, room)]
                room -= len(point.data)
        return message


def signed_words(statements: Sequence[bytes]) -> tuple[common_pb2.SignedWord, ...]:
    """As they travel."""
    return tuple(common_pb2.SignedWord.FromString(each) for each in statements)
