"""Records per second, for the party's own operator and nobody else."""

import json
import stat
from pathlib import Path

import numpy as np
import pytest

from parley.party.overview import runs_of, with_speed
from parley.party.process import party_node, settings_of
from parley.party.speed import RECENT, Speed, speed_at
from tests.support.documents import manifest
from tests.support.party_process import EVERYONE, Running
from tests.support.stage import Stage, question
from tests.support.until import until


def test_it_is_of_the_newest_rounds_together(tmp_path: Path) -> None:
    path = tmp_path / "speed" / "run.json"
    assert speed_at(path) is None
    speed = Speed(path)
    speed.note(1_000_000, 1.0)
    for _ in range(RECENT):
        speed.note(100, 0.5)
    assert speed_at(path) == {"records_per_second": 200.0, "rounds": RECENT, "seconds": 0.5}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["run.json"]


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", '{"records_per_second": "many"}'])
def test_a_file_that_was_cut_or_altered_says_nothing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(content)
    assert speed_at(path) is None


def test_what_cannot_be_written_stops_no_run(tmp_path: Path) -> None:
    (tmp_path / "speed").write_text("no folder")
    Speed(tmp_path / "speed" / "run.json").note(10, 0.1)
    assert speed_at(tmp_path / "speed" / "run.json") is None


@pytest.mark.usefixtures("verified_in_process")
def test_of_a_run_its_own_state_says_it_and_no_log_metric_or_message_does(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        stage.coordinator.ask(question(made, 0, (np.zeros(3),)))
        stage.opened(0)
        until(lambda: stage.coordinator.requests[-1].after_round == 0)
    settings = settings_of(party_node(stage.node))
    (run,) = runs_of(settings)
    found = with_speed(settings, run)["speed"]
    assert found["records_per_second"] > 0
    path = settings.speed(made.digest)
    told = json.loads(path.read_text())
    for place in (settings.trail, settings.outbox, *stage.node.rglob("*.jsonl")):
        assert str(told["records_per_second"]).encode() not in place.read_bytes(), place
        assert str(told["seconds"]).encode() not in place.read_bytes(), place
    said = capfd.readouterr()
    assert "records_per_second" not in said.out + said.err
    assert str(told["seconds"]) not in said.out + said.err
    assert not any(str(told["seconds"]) in str(each) for each in stage.coordinator.requests)
