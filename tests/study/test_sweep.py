"""A sweep pays for every fit that it shows, counts them together, and chooses nothing by itself."""

from pathlib import Path
from typing import Any

import pytest

from parley.study.errors import StudyError
from parley.study.fit_costs import SPENDING
from parley.study.model_file import load
from parley.study.sweep import Sweep
from tests.study.test_plan import QUICK
from tests.study.test_simulate import PARTIES, PUBLIC, STUDY

EPSILONS = [0.5, 1.0, 2.0]


@pytest.fixture(scope="module")
def before() -> tuple[int, float]:
    return SPENDING.everything.fits, SPENDING.everything.epsilon


@pytest.fixture(scope="module")
def found(before: tuple[int, float]) -> Sweep:
    return STUDY.sweep(PARTIES, epsilon=EPSILONS, algorithm=[QUICK], test=PUBLIC, seeds=2)


def test_every_combination_is_there_in_order(found: Sweep) -> None:
    assert [each.study.epsilon for each in found.results] == EPSILONS
    both = STUDY.sweep(STUDY.made_up(300), epsilon=[1, 2], algorithm=[QUICK, "dp-gd"], test=PUBLIC)
    names = [(each.study.epsilon, each.study.algorithm["name"]) for each in both.results]
    assert names == [(1, QUICK["name"]), (1, "dp-gd"), (2, QUICK["name"]), (2, "dp-gd")]


def test_all_fits_are_charged_together_for_less_than_their_sum(before: tuple[int, float], found: Sweep) -> None:
    assert found.cost is not None
    assert (found.cost.fits, found.cost.composed) == (6, True)
    assert max(EPSILONS) < found.cost.epsilon < 2 * sum(EPSILONS)
    assert found.cost.delta == pytest.approx(6 * STUDY.delta)
    now = SPENDING.everything
    assert now.fits - before[0] == 6
    assert now.epsilon - before[1] == pytest.approx(found.cost.epsilon)


def test_the_total_is_the_accountants_own_of_everything_that_was_released(found: Sweep) -> None:
    """Never less than what the loudest fits alone cost, by an account of their own."""
    from parley.privacy.accountants import accountant
    from parley.privacy.event import Event

    assert found.cost is not None
    loudest = found.results[-1].fit.mechanism
    for event in loudest.events().values():
        twice = Event(event.releases + event.releases, event.relation)
        assert found.cost.epsilon > accountant("pld").epsilon(twice, found.cost.delta).epsilon


def test_a_model_saved_from_it_has_all_fits_on_its_card(found: Sweep, tmp_path: Path) -> None:
    assert found.cost is not None
    found.results[0].save(tmp_path / "model.npz")
    card = load(tmp_path / "model.npz").card
    assert card["fits"] >= 6
    assert card["epsilon_of_all_fits"] >= found.cost.epsilon - 1e-9
    assert card["epsilon"] == pytest.approx(0.5, rel=1e-3)
    assert "any that was chosen among them" in card["statement"]


def test_what_is_shown_says_the_price_and_that_it_is_for_one_person(found: Sweep) -> None:
    assert found.cost is not None
    said = " ".join(str(found).split())
    assert f"epsilon {found.cost.epsilon:.3g}" in said
    assert "All 6 fits were shown, so all are paid for" in said
    assert "Not private" in said
    assert found.as_json()["not_private"] == ["trials"]
    assert found.as_json()["cost"]["fits"] == 6
    assert "<table>" in found._repr_html_()


def test_it_chooses_where_it_is_asked_and_the_test_set_is_public(found: Sweep) -> None:
    assert found.best("auc") is max(found.results, key=lambda each: each.quality["auc"].mean)
    assert found.best("loss") is min(found.results, key=lambda each: each.quality["loss"].mean)
    with pytest.raises(StudyError, match="no figure 'calibration_slope' to choose by"):
        found.best("calibration_slope")


def test_records_that_were_held_out_choose_nothing() -> None:
    held = STUDY.sweep(PARTIES, epsilon=[1.0, 2.0], algorithm=[QUICK])
    with pytest.raises(StudyError, match="give a public test set"):
        held.best("auc")


@pytest.mark.parametrize("given", [{"public": True}, {"made up": True}])
def test_open_records_cost_nothing(given: dict[str, bool]) -> None:
    fits = SPENDING.everything.fits
    data = STUDY.made_up(300) if "made up" in given else PARTIES["a"]
    tried = STUDY.sweep(data, epsilon=[1.0, 2.0], algorithm=[QUICK], public="public" in given)
    assert tried.cost is None
    assert SPENDING.everything.fits == fits
    assert "nothing is charged" in str(tried)
    assert tried.best("auc") in tried.results


def test_of_repeatable_fits_nothing_is_claimed() -> None:
    tried = STUDY.sweep(PARTIES, epsilon=[1.0, 2.0], algorithm=[QUICK], test=PUBLIC, repeatable=True)
    assert tried.cost is None
    assert "none of these models protects anybody" in str(tried)


def test_a_set_that_is_shared_out_anew_for_each_fit_is_added_up() -> None:
    wanted = STUDY.replaced(parties={"a": 200, "b": 200})
    tried = wanted.sweep(PARTIES["a"], epsilon=[1.0, 2.0], algorithm=[QUICK], test=PUBLIC)
    assert tried.cost is not None
    assert not tried.cost.composed
    assert tried.cost.epsilon == pytest.approx(3.0, rel=1e-2)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"epsilon": 1.0}, "epsilon is one value: give a list"),
        ({"algorithm": "auto"}, "algorithm is one value"),
        ({"model": {"kind": "logistic"}}, "model is one value"),
        ({"epsilon": [1.0] * 400, "seeds": 3}, "that would be 1,200 fits"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_anything_is_charged(given: dict[str, Any], why: str) -> None:
    fits = SPENDING.everything.fits
    with pytest.raises(StudyError, match=why):
        STUDY.sweep(PARTIES, test=PUBLIC, **given)
    assert SPENDING.everything.fits == fits
