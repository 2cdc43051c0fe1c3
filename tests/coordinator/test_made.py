"""A run that stops early on its public set: the model of its best round, and fewer rounds than were planned."""

import threading
from pathlib import Path

import numpy as np
import pytest

import parley.coordinator.process
from parley.coordinator.made import Made
from parley.coordinator.store import State
from parley.federation.manifest import Manifest
from parley.privacy.ledger import Ledger
from parley.study.model_file import LoadedModel, load
from tests.support.lead import SECONDS, Lead, verified
from tests.support.warm import lead_with_public_set, warm_run

EARLY = {"rounds.stop_early": {"patience": 3}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parley.coordinator.process, "verify_apart_with_charge", verified)


def model_of(lead: Lead, made: Manifest) -> LoadedModel:
    return load(lead.folder / "models" / f"{made.run}.npz")


def test_a_run_stops_when_the_public_loss_has_not_fallen_for_long_enough(tmp_path: Path) -> None:
    with lead_with_public_set(tmp_path) as lead:
        made = warm_run(lead, tmp_path, "early", **EARLY)
        lead.finishes(made)
        row = lead.process.store.find("early")
        rounds = lead.process.store.history(made.digest)
        losses = [each.evaluation["loss"] for each in rounds]
        assert losses == sorted(losses)
        assert (row.round, made.releases) == (len(rounds), 40) == (4, 40)
        assert row.outcome.startswith("stopped early after 4 of 40 rounds: the public loss had not fallen for 3 eval")
        assert "Under a ledger's rule basic the whole run stays charged; under rdp 36 rounds come back" in row.outcome
        assert lead.notes.count("run.stopped_early") == 1
        assert lead.notes.index("run.stopped_early") < lead.notes.index("run.finished")
        card = model_of(lead, made).card
        assert (card["rounds"], card["rounds_planned"], card["chosen_round"]) == (4, 40, 1)
        assert card["stop_early"] == {"patience": 3, "least": 0.0}
        assert card["evaluation"]["loss"] == losses[0] == min(losses)
        assert [each.openings for each in lead.process.runs.all[made.digest].ends] == [4, 4]


def test_the_coordinators_own_ledger_keeps_the_whole_charge(tmp_path: Path) -> None:
    with lead_with_public_set(tmp_path) as lead:
        made = warm_run(lead, tmp_path, "early", **EARLY)
        lead.finishes(made)
        ledger = Ledger.open_newest(lead.folder / "state" / "ledger.sqlite")
        run = ledger.runs["early"]
        assert run.ended
        assert run.cost == run.charge.cost
        ledger.close()


def test_a_restart_in_the_middle_changes_neither_the_stop_nor_the_model(tmp_path: Path) -> None:
    """What the evaluations have said so far is on disk with each question."""
    with lead_with_public_set(tmp_path) as lead:
        whole = warm_run(lead, tmp_path, "whole", **EARLY)
        lead.finishes(whole)
        broken = warm_run(lead, tmp_path, "broken", **EARLY)
        third = threading.Event()
        notes = lead.note

        def note(event: str, **fields: object) -> str:
            if event == "round.opened" and fields["round"] == 1:
                lead.opening.clear()
                third.set()
            return notes(event, **fields)

        lead.note = note  # type: ignore[method-assign]
        lead.restart()
        lead.opening.set()
        assert third.wait(SECONDS)
        lead.note = notes  # type: ignore[method-assign]
        lead.restart()
        assert 2 <= lead.process.store.find("broken").round < 4
        lead.finishes(broken)
        rows = [lead.process.store.find(name) for name in ("whole", "broken")]
        assert rows[0].outcome == rows[1].outcome
        assert np.array_equal(model_of(lead, whole).theta, model_of(lead, broken).theta)


def test_an_end_that_waits_for_a_server_is_taken_up_and_no_round_is_asked_again(tmp_path: Path) -> None:
    with lead_with_public_set(tmp_path) as lead:
        made = warm_run(lead, tmp_path, "early", **EARLY)
        lead.servers[1].away = True
        lead.opening.set()
        lead.until(made, State.ending)
        lead.restart()
        lead.servers[1].away = False
        lead.until(made, State.finished)
        assert lead.process.store.find("early").outcome.startswith("stopped early after 4 of 40")
        assert lead.servers[0].opened[made.digest] == 4


def test_a_run_that_is_let_run_to_its_end_has_the_model_of_its_best_round(tmp_path: Path) -> None:
    with lead_with_public_set(tmp_path) as lead:
        made = warm_run(lead, tmp_path, "patient", **{"rounds.stop_early": {"patience": 100}})
        lead.finishes(made)
        card = model_of(lead, made).card
        assert (card["rounds"], card["chosen_round"]) == (40, 1)
        assert lead.process.store.find("patient").outcome == "40 rounds; the model is that of round 1"


def test_a_coordinator_without_a_public_set_refuses_before_anybody_is_asked(lead: Lead) -> None:
    from parley.v1 import operator_pb2
    from tests.support.documents import manifest

    made = manifest(run="blind", **EARLY)
    lead.operator.Submit(operator_pb2.SubmitRequest(manifest=made.canonical), timeout=SECONDS)
    lead.until(made, State.refused)
    assert (
        "this coordinator has none: name one under [evaluation] in node.toml"
        in lead.process.store.find("blind").outcome
    )
    assert not lead.servers[0].manifests
    assert not (lead.folder / "state" / "ledger.sqlite").exists()


def test_words_for_a_run_of_all_its_rounds_are_as_before() -> None:
    assert str(Made(40, 40, None, 0)) == "40 rounds"
