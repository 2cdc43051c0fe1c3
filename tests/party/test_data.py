"""The records that a run was charged for."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.commands.party import app
from tests.support.documents import manifest
from tests.support.memories import POINT, left, state
from tests.support.party_process import EVERYONE, Running, charged, ledger
from tests.support.stage import Stage, question
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")


def test_other_records_under_a_charged_run_are_not_answered_from(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    rng = np.random.default_rng(99)
    rows = [f"{a:.1f},{p:.0f},{s}" for a, p, s in zip(
        rng.uniform(20, 90, 300), rng.uniform(30, 220, 300), rng.integers(0, 2, 300), strict=True
    )]  # fmt: skip
    kept = (stage.node / "records.csv").read_text()
    (stage.node / "records.csv").write_text("age,pulse,sick\n" + "\n".join(rows) + "\n")
    stage.coordinator.ask(question(made, 1, (POINT, np.zeros(3))))
    with Running(stage):  # exchanged without a word: it waits, and nothing is heard
        until(lambda: state(stage) == "waiting")
    assert not [join for join in stage.coordinator.joins if not join.accepted]
    stage.seal()
    with Running(stage):
        assert "takes no further part" in left(stage)
        until(lambda: state(stage) == "left")
    assert sorted(stage.a.payloads) == [0]
    (stage.node / "records.csv").write_text(kept)  # for good: not even the right ones, then
    stage.seal()
    with Running(stage):
        stage.coordinator.ask(question(made, 1, (POINT, np.zeros(3))))
        assert sorted(ledger(stage).runs["heart-1"].recorded) == [0]
    assert sorted(stage.a.payloads) == [0]
    # What it was charged comes back by the aggregators' words, though the party has left.
    stage.finish(stage.ends(made, 0))
    done = CliRunner().invoke(app, ["settle", str(stage.node), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output.splitlines()[-1])
    assert (found["runs"], found["budget"]["epsilon_spent"]) == ([{"run": "heart-1", "settled": True, "reason": ""}], 0)
