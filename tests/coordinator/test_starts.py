"""A run that starts from a public model file: the file that its manifest names, for this model and these columns."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parley.coordinator.process
from parley.coordinator.errors import RunFailedError
from parley.coordinator.preparation import prepare
from parley.coordinator.starts import keep_start, require_steering, start_path
from parley.coordinator.store import State
from parley.study.model_file import load
from parley.v1 import operator_pb2
from tests.support.documents import manifest
from tests.support.lead import SECONDS, Lead, asking, verified
from tests.support.warm import THETA, lead_with_public_set, model_file, starting, warm_run


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parley.coordinator.process, "verify_apart_with_charge", verified)


def test_the_first_question_is_about_the_models_own_parameters(lead: Lead, tmp_path: Path) -> None:
    made = warm_run(lead, tmp_path, "warm")
    answer = lead.stub().NextRound(asking(made), timeout=SECONDS)
    assert np.array_equal(np.frombuffer(answer.round.points[0].data, "<f8"), THETA)
    assert "run.warm_start" in lead.notes


def test_the_card_says_where_the_run_started_and_that_private_records_are_behind_it(tmp_path: Path) -> None:
    with lead_with_public_set(tmp_path) as lead:
        made = warm_run(lead, tmp_path, "warm")
        lead.restart()
        lead.finishes(made)
        card = load(lead.folder / "models/warm.npz").card
        earlier = load(tmp_path / "start.npz").card
        assert card["start"] == {
            "digest": earlier["digest"], "private": True, "run": "earlier", "epsilon": earlier["epsilon"],
            "delta": earlier["delta"], "statement": earlier["statement"],
        }  # fmt: skip
        assert (card["records"], card["stop_early"], card["chosen_round"]) == ("private", None, None)


def test_a_card_is_written_also_where_the_start_has_gone_since(tmp_path: Path) -> None:
    with lead_with_public_set(tmp_path) as lead:
        made = warm_run(lead, tmp_path, "warm")
        assert made.start is not None
        start_path(lead.folder / "state", made.start.digest).unlink()
        lead.finishes(made)
        assert load(lead.folder / "models/warm.npz").card["start"] == made.start.as_json()


def test_a_run_whose_start_is_not_there_is_refused_before_anybody_is_asked(lead: Lead, tmp_path: Path) -> None:
    made = manifest(run="missing", **starting(model_file(tmp_path / "start.npz")))
    lead.operator.Submit(operator_pb2.SubmitRequest(manifest=made.canonical), timeout=SECONDS)
    lead.until(made, State.refused)
    assert "submit it with `parley run RUN.toml --start MODEL.npz`" in lead.process.store.find("missing").outcome
    assert not lead.servers[0].manifests


NARROWER = [{"name": "age", "low": 20.0, "high": 80.0}, {"name": "pulse", "low": 30.0, "high": 220.0}]
OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"schema.features": NARROWER}, "another model or other columns"),
    ({"schema.target.positive": ["1", "2"]}, "another model or other columns"),
    ({"model": {"kind": "smoothed-hinge", "dimension": 3}}, "another model or other columns"),
    ({"privacy.epsilon": 1.9}, "starts from another one"),
]


@pytest.mark.parametrize(("changes", "why"), OTHERS)
def test_another_file_is_refused_and_nothing_is_kept(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    made = manifest(**starting(model_file(tmp_path / "named.npz")))
    other = model_file(tmp_path / "other.npz", **changes)
    with pytest.raises(RunFailedError, match=why):
        keep_start(made, other, tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_manifest_that_says_that_a_private_model_is_not_is_refused(tmp_path: Path) -> None:
    path = model_file(tmp_path / "named.npz")
    claimed = starting(path)["start"] | {"private": False}
    with pytest.raises(RunFailedError, match="says otherwise whether that one is private"):
        keep_start(manifest(start=claimed), path, tmp_path / "state")


def test_a_manifest_without_a_start_takes_none(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError, match="names no start: draft it from a study"):
        keep_start(manifest(), model_file(tmp_path / "start.npz"), tmp_path / "state")


def test_a_file_that_was_altered_where_it_is_kept_is_refused(tmp_path: Path) -> None:
    path = model_file(tmp_path / "start.npz")
    made = manifest(**starting(path))
    keep_start(made, path, tmp_path / "state")
    assert np.array_equal(prepare(made, state=tmp_path / "state").theta, THETA)
    assert made.start is not None
    kept = start_path(tmp_path / "state", made.start.digest)
    assert kept.parent.stat().st_mode & 0o077 == 0
    found = dict(np.load(kept))
    np.savez(kept, **{**found, "theta": found["theta"] + 1})
    with pytest.raises(RunFailedError, match="theta is not what the card is about"):
        require_steering(made, (), tmp_path / "state")
