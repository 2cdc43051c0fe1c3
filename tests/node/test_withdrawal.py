"""An operator withdraws a run: nothing is answered any more."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.commands.party import app
from parley.federation.manifest import Manifest
from parley.party.outbox import Outbox
from tests.support.documents import manifest
from tests.support.party_process import (
    EVERYONE,
    Running,
    ledger,
)
from tests.support.stage import Stage, question
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")


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
        assert "this party takes no part in run heart-1" in stage.coordinator.joins[-1].reason
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
