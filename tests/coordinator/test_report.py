"""What a coordinator says of a run for its report: who answered, what it asked, both ends, its ledger."""

import pytest

from parley.coordinator.errors import StateError
from parley.coordinator.operator_client import coordinator_node
from parley.coordinator.report import facts_of
from tests.support.lead import PARTIES, Lead


def test_a_finished_run_is_reported_with_both_ends_and_what_was_charged(lead: Lead) -> None:
    made = lead.running("whole")
    lead.finishes(made)
    found = facts_of(coordinator_node(lead.folder), None, {})
    assert (found.manifest.digest, found.state) == (made.digest, "finished")
    assert found.rounds == made.releases
    assert {end.aggregator.split("/")[-1]: end.openings for end in found.ends} == dict.fromkeys(
        ("north", "south"), made.releases
    )
    assert found.proved is not None
    assert found.proved[0] == made.releases
    (budget,) = found.budgets
    (run,) = budget["runs"]
    assert run["charged"] <= run["ended"]
    assert found.meaning is not None
    assert found.left[0].bytes is not None
    answers = {uri.split("/")[-1]: each.answer for uri, each in found.present.items()}
    assert {answers[name] for name in PARTIES} == {"joined"}


def test_another_run_than_there_is_names_those_that_there_are(lead: Lead) -> None:
    lead.submit("waiting")
    with pytest.raises(StateError, match="no run 'other' on this coordinator: it has waiting"):
        facts_of(coordinator_node(lead.folder), "other", {})
