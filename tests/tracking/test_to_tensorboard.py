"""TensorBoard's own reader finds what was sent, and nothing besides."""

import json
from pathlib import Path
from typing import Any

import pytest

from parley.coordinator.result import model_path
from parley.study.model_file import load
from parley.tracking.released import EPSILON
from tests.support.tracked import Ended, offline, sent, tracking

ON_THE_LIST = {
    "public/loss", "public/error", "public/accuracy", "public/auc", "released/estimator_norm", "released/noise_norm",
    EPSILON,
}  # fmt: skip


def read_back(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return found


@pytest.mark.slow
def test_its_reader_finds_every_released_figure_and_the_card(ended: Ended, tmp_path: Path) -> None:
    tracking(ended.folder, tensorboard=tmp_path / "events")
    done = sent("tensorboard", ended.folder, offline())
    assert (done.returncode, done.stderr) == (0, "")
    found = read_back(tmp_path / "events" / "warm")
    assert set(found.Tags()["tensors"]) | set(found.Tags()["scalars"]) == ON_THE_LIST | {"run", "card"}
    losses = [(each.step, each.value) for each in found.Scalars("public/loss")]
    expected = [(each.round + 1, each.evaluation["loss"]) for each in ended.records]
    assert [step for step, _ in losses] == [step for step, _ in expected] == [1, 2, 3, 4]
    assert [value for _, value in losses] == pytest.approx([value for _, value in expected])
    spent = [(each.step, each.value) for each in found.Scalars(EPSILON)]
    assert [step for step, _ in spent] == [1, 2, 3, 4]
    assert [value for _, value in spent] == sorted(value for _, value in spent)
    card = load(model_path(ended.folder, "warm")).card
    assert 0 < spent[0][1] < spent[-1][1] < card["epsilon"]
    shown = found.Tensors("card")[0].tensor_proto.string_val[0].decode()
    assert json.loads("\n".join(line.removeprefix("    ") for line in shown.splitlines())) == card
    assert load(tmp_path / "events" / "warm" / "warm.npz").card == card


@pytest.mark.slow
def test_a_second_process_sends_nothing_again(ended: Ended, tmp_path: Path) -> None:
    tracking(ended.folder, tensorboard=tmp_path / "events")
    assert sent("tensorboard", ended.folder).returncode == 0
    before = sorted(path.name for path in (tmp_path / "events").rglob("*"))
    assert sent("tensorboard", ended.folder).returncode == 0
    assert sorted(path.name for path in (tmp_path / "events").rglob("*")) == before


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_said_in_the_log_and_is_no_stack_trace(ended: Ended, tmp_path: Path) -> None:
    (tmp_path / "events").write_text("no folder")
    tracking(ended.folder, tensorboard=tmp_path / "events")
    done = sent("tensorboard", ended.folder)
    line = json.loads(done.stderr.strip().splitlines()[-1])
    assert (done.returncode, line["event"], line["kind"]) == (1, "the tracker failed", "tensorboard")
    assert "cannot be written" in line["message"]
