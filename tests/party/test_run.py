"""Honest rounds, one party against scripted servers: what is uploaded is exactly the encoded contribution."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.commands.party import app
from parley.federation.manifest import Manifest
from parley.learning.contributor import Query
from parley.party.outbox import Outbox
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


def first_round(stage: Stage, made: Manifest) -> None:
    stage.coordinator.ask(question(made, 0, (np.zeros(3),)))
    stage.opened(0)
    until(lambda: stage.coordinator.requests[-1].after_round == 0)


def test_a_run_that_its_operator_withdraws_is_answered_no_more(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        first_round(stage, made)
        command = ["withdraw", str(stage.node), "heart-1", "--by", "Dr. Ada Osei", "--json"]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert json.loads(done.output.splitlines()[-1])["withdrawn"]
        stage.coordinator.ask(question(made, 1, (np.array([0.1, -0.2, 0.3]), np.zeros(3))))
        until(lambda: any(not join.accepted for join in stage.coordinator.joins))
        assert "has left run heart-1" in stage.coordinator.joins[-1].reason
    assert sorted(stage.a.payloads) == [0]
    assert sorted(ledger(stage).runs["heart-1"].recorded) == [0]
    trail = (stage.node / "state" / "trail.jsonl").read_text()
    assert '"event":"run.withdrawn"' in trail
    assert "Dr. Ada Osei" in trail


def test_a_run_that_is_withdrawn_while_its_process_is_down_leaves_no_payload_behind(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        first_round(stage, made)
    done = CliRunner().invoke(app, ["withdraw", str(stage.node), "heart-1", "--by", "Dr. Ada Osei"])
    assert done.exit_code == 0, done.output
    with Running(stage):
        until(lambda: any(not join.accepted for join in stage.coordinator.joins))
    outbox = Outbox(stage.node / "state" / "outbox.sqlite")
    last = outbox.last(made.digest)
    assert last is not None
    assert (last.payload_a, last.payload_b) == (b"", b"")
    assert [held.state for held in outbox.runs()] == ["left"]
    outbox.close()
