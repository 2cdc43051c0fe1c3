"""A question that is larger than a message."""

import numpy as np

from parley.algorithms.algorithm import Ask
from parley.coordinator.questions import Question
from parley.federation.rounds import PIECE_BYTES
from parley.party.questions import Points


def test_a_question_about_many_large_points_fits_a_message_and_the_party_fetches_the_rest() -> None:
    candidates = tuple(np.full(300_000, float(place)) for place in range(64))
    question = Question.of(bytes(32), 3, Ask(candidates, "losses"), 63)
    message = question.for_party(frozenset())
    assert message.ByteSize() < 4 << 20  # gRPC's limit
    fetched: list[int] = []

    def fetch(digest: bytes, offset: int) -> bytes:
        fetched.append(offset)
        return question.points[digest][offset : offset + PIECE_BYTES]

    found = Points().query(message, fetch)
    assert all(np.array_equal(got, wanted) for got, wanted in zip(found.points, candidates, strict=True))
    assert {0, PIECE_BYTES, 2 * PIECE_BYTES} == set(fetched)
