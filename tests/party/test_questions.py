"""Every question of the default recipe, as the coordinator sends it and a party reads it."""

import numpy as np
import pytest

from parley.algorithms.registry import query_of
from parley.coordinator.preparation import prepare
from parley.coordinator.questions import Question
from parley.demo.recipe import STUDY
from parley.federation.manifest import Manifest
from parley.party.errors import RefusedRunError
from parley.party.questions import HELD, Points, check_form
from parley.privacy.randomness import SystemRandomness


@pytest.fixture(scope="module")
def made() -> Manifest:
    return STUDY.replaced(run="a-run", federation="hospitals", algorithm="auto").manifest()


def nothing(digest: bytes, offset: int) -> bytes:
    raise AssertionError("every point came with its round")


def test_a_party_reads_what_auto_asks_and_holds_what_a_frame_is_made_of(made: Manifest) -> None:
    prepared = prepare(made)
    algorithm, points = prepared.algorithm, Points()
    algorithm.begin(prepared.plan, prepared.theta, 1e-3, SystemRandomness())
    kinds, sent = [], []
    for index in range(32):
        ask = algorithm.ask(index)
        question = Question.of(made.digest, index, ask, prepared.length(ask))
        message = question.for_party(frozenset(points.held))
        check_form(message, made)
        found, expected = points.query(message, nothing), query_of(index, ask)
        assert (found.kind, found.scale) == (expected.kind, expected.scale)
        for got, wanted in zip(found.points, expected.points, strict=True):
            np.testing.assert_array_equal(got, wanted)
        kinds.append(ask.kind)
        sent.append(sum(bool(point.data) for point in message.points))
        algorithm.tell(index, np.full(message.length, 0.01))
    assert kinds[:7] == ["norms", *["means"] * 5, "framed norms"]
    assert kinds[7:16] == [*["absolute means"] * 4, *["square means"] * 4, "framed norms"]
    assert set(kinds[16:]) == {"framed gradient"}
    # Shift and scale travel once: after that a round of descent sends the model alone.
    assert sent[25:] == [1] * 7
    assert len(points.held) == HELD


def test_a_question_in_a_frame_with_too_many_points_is_refused(made: Manifest) -> None:
    prepared = prepare(made)
    algorithm = prepared.algorithm
    algorithm.begin(prepared.plan, prepared.theta, 1e-3, SystemRandomness())
    algorithm.tell(0, np.full(24, 0.01))
    message = Question.of(made.digest, 1, algorithm.ask(1), made.model.dimension).for_party(frozenset())
    message.points.add().CopyFrom(message.points[0])
    with pytest.raises(RefusedRunError, match="3 points"):
        check_form(message, made)
