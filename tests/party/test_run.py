"""Honest rounds, one party against scripted servers: what is uploaded is exactly the encoded contribution."""

import numpy as np
import pytest

from parley.learning.contributor import Query
from tests.support.documents import manifest
from tests.support.party_process import (
    EVERYONE,
    Running,
    contributor,
    ledger,
)
from tests.support.stage import Stage, question
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")


def test_shares_add_up_to_the_encoded_contribution_and_the_ledger_knows_of_each(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    expected = contributor(stage, made)
    stage.offer(made)
    with Running(stage):
        points = [np.zeros(3), np.array([0.1, -0.2, 0.3]), np.array([0.4, 0.1, -0.3])]
        for index in range(3):
            asked = (points[index], points[index - 1]) if index else (points[0],)
            stage.coordinator.ask(question(made, index, asked))
            found = stage.opened(index)
            assert found.tolist() == expected.contribution(Query(index, asked)).tolist()
            assert np.abs(found).max() > 0
        assert stage.coordinator.joins[0].accepted
        assert len({stage.b.payloads[index] for index in range(3)}) == 3
        until(lambda: stage.coordinator.requests[-1].after_round == 2)
        # Only the new point travels.
        assert len(stage.coordinator.requests[-1].held_points) == 2
        book = ledger(stage)
        assert sorted(book.runs["heart-1"].recorded) == [0, 1, 2]
        stage.finish(stage.ends(made, 3))
        until(lambda: ledger(stage).runs["heart-1"].ended)
