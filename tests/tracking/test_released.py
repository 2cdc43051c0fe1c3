"""What a tracker is told is on a list; whatever else a record holds stays."""

import dataclasses

import pytest

from parley.coordinator.store import RoundRecord, RunRow, State
from parley.tracking.released import EPSILON, NORMS, PARAMETERS, PUBLIC, parameters, points
from tests.support.documents import manifest, meaning

RECORD = RoundRecord(
    round=4, at=100.5, seconds=1.25, waited_seconds=2.5, agreed_seconds=3.5, noised_seconds=4.5, stepped_seconds=5.5,
    contributors=["hospital-a"], missing=["hospital-b"], estimator_norm=6.5, noise_norm=7.5, bytes_down=8, bytes_up=9,
    evaluation={"loss": 0.25, "auc": 0.75},
)  # fmt: skip


def told(**evaluation: object) -> dict[str, float]:
    record = dataclasses.replace(RECORD, evaluation=evaluation)  # type: ignore[arg-type]
    return {each.name: each.value for each in points(record)}


def test_of_a_round_only_released_figures_are_told() -> None:
    found = list(points(RECORD))
    assert {each.name: each.value for each in found} == {
        "public/loss": 0.25, "public/auc": 0.75, "released/estimator_norm": 6.5, "released/noise_norm": 7.5,
    }  # fmt: skip
    assert {(each.step, each.at) for each in found} == {(5, 100.5)}


@pytest.mark.parametrize(
    "name",
    ["train_loss", "train_auc", "loss_std", "without_privacy", "constant", "gradient_norm", "clipped_fraction",
     "records", "batch", "fits", "seed", "auc_mean", "loss[1]", "auc[]", "quality"],
)  # fmt: skip
def test_a_figure_that_is_not_on_the_list_stays(name: str) -> None:
    assert told(**{name: 0.5}).keys() == {"released/estimator_norm", "released/noise_norm"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "0.5", None, [0.5], {"low": 0.1}])
def test_what_is_no_number_stays(value: object) -> None:
    assert "public/loss" not in told(loss=value)


def test_a_class_label_is_spelled_so_that_every_tracker_takes_it() -> None:
    assert told(**{"auc[a/b: c]": 0.5})["public/auc/a_b_ c"] == 0.5


def test_of_a_run_only_what_its_manifest_and_its_claim_say_is_told() -> None:
    made = manifest(start={"digest": "ab" * 32, "private": True}, **{"rounds.stop_early": {"patience": 5}})
    claim = {**meaning().as_json(), "worst_party": "hospital-b", "secret": 1}
    row = RunRow(
        digest=made.digest, run="heart-1", manifest=made.canonical, state=State.running, outcome="x", submitted=1.0,
        started=2.0, ended=None, round=3, claim=claim, evaluation={"loss": 0.5},
    )  # fmt: skip
    found = parameters(row, made)
    assert found.keys() == set(PARAMETERS)
    assert (found["start"], found["stop_early"], found["epsilon"]) == ("ab" * 32, "patience 5", "1.78")
    assert "hospital-b" not in str(found)


def test_the_list_names_nothing_private() -> None:
    assert not {name for name in (*PUBLIC, *NORMS, EPSILON, *PARAMETERS) if name.startswith(("train", "without"))}
