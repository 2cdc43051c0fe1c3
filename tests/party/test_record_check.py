"""Records that do not fit."""

import json
import subprocess
import sys

import pytest

from parley.party.outbox import Outbox
from tests.support.documents import manifest
from tests.support.party_process import EVERYONE, Running
from tests.support.stage import Stage
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")


def test_records_that_do_not_fit_are_named_locally_and_to_nobody_else(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    """The node waits for its operator, whatever is asked, and says nothing; with a seal it joins."""
    records = stage.node / "records.csv"
    good = records.read_text()
    records.write_text(good.replace("\n", "\n77.7,secretvalue,1\n", 1))
    check = [sys.executable, "-m", "parley.cli.main", "schema", "check", str(stage.node), "--json"]
    done = subprocess.run(check, capture_output=True, check=False)
    assert done.returncode == 1
    problems = json.loads(done.stdout)["problems"]
    assert ["column pulse" in each for each in problems] == [True]
    capfd.readouterr()
    stage.offer(manifest(**EVERYONE))
    stage.offer(manifest(**EVERYONE, run="heart-2", **{"schema.features.1.high": 221.0}))
    with Running(stage):
        until(lambda: sum(state == "waiting" for state, _ in states(stage)) == 2)
        assert len({reason for _, reason in states(stage)}) == 1
        assert not stage.coordinator.joins
        said = "".join(capfd.readouterr())
        for value in ("secretvalue", "77.7", "pulse", "row"):
            assert value not in said
        records.write_text(good)
        assert subprocess.run(check, capture_output=True, check=False).returncode == 0
        until(lambda: len(stage.coordinator.joins) == 2)
    assert sorted(join.accepted for join in stage.coordinator.joins) == [False, True]


def states(stage: Stage) -> list[tuple[str, str]]:
    outbox = Outbox(stage.node / "state" / "outbox.sqlite")
    found = [(held.state, held.reason) for held in outbox.runs()]
    outbox.close()
    return found
