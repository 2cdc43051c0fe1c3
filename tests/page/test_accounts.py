"""Budgets on the page: of what is charged, of what is asked, and of what does not fit."""

from dataclasses import replace
from pathlib import Path

from parley.page.accounts import budget_of_run, budgets, spent_before
from parley.page.costs import Cost
from parley.page.folder import Folder
from parley.page.process import page_node
from parley.privacy.filters import Policy
from tests.support.party_pages import Visitor, asked, first
from tests.support.party_process import verified


def cost(epsilon: float | None = None) -> Cost:
    meaning, charge = verified(asked().canonical, "hospital-a", Policy())
    return Cost(meaning, charge if epsilon is None else replace(charge, cost=replace(charge.cost, epsilon=epsilon)))


def test_a_run_that_is_charged_counts_once_and_one_that_is_asked_comes_on_top(folder: Path) -> None:
    here = Folder(page_node(folder))
    found = here.read()
    (body,) = budgets(here, found)
    charged, wanted = budget_of_run(here, found, first(), cost()), budget_of_run(here, found, asked(), cost())
    assert charged is not None
    assert wanted is not None
    assert (charged.asked, charged.epsilon_left) == (0.0, body["epsilon_left"])
    assert wanted.epsilon == charged.epsilon
    assert wanted.fits
    before, lying = spent_before(here, found, asked())
    assert before == body["epsilon_spent"]
    assert lying == body["epsilon_if_a_server_lies"]


def test_what_does_not_fit_the_cap_is_said_and_cannot_be_approved(folder: Path) -> None:
    here = Folder(page_node(folder))
    found = here.read()
    wanted = budget_of_run(here, found, asked(), cost(3.0))
    assert wanted is not None
    assert not wanted.fits
    made = asked()
    with Visitor(folder) as visitor:
        visitor.page(made, 'id="approve"')
        costs = visitor.app.state.pages._costs._known
        costs.update({key: cost(3.0) for key in costs})
        page = visitor.page(made)
        assert "It does not fit what is left of the budget of patients" in page
        assert 'id="approve"' not in page


def test_a_ledger_that_cannot_be_read_is_no_budget_that_is_whole(folder: Path) -> None:
    (folder / "state" / "ledger.sqlite.head").write_text("nonsense")
    here = Folder(page_node(folder))
    assert spent_before(here, here.read(), asked()) == (None, None)
