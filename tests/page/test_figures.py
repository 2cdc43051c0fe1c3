"""What a decision is bound to: everything that it rests on, and nothing that moves by itself."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from parley.federation.fields import Plain
from parley.page import views
from parley.page.costs import Cost
from parley.page.figures import Ground, _uses, binding, run_view
from parley.page.folder import Folder
from parley.page.process import page_node
from parley.privacy.filters import Policy
from tests.support.party_pages import asked
from tests.support.party_process import verified

STILL: dict[str, Any] = {
    "own": views.Own("ready", 7),
    "shown": "x",
    "ends": (views.End("a", 1),),
    "seen": "y",
    "problems": ("z",),
}
"""These move while nothing is decided."""


@pytest.fixture
def view(folder: Path) -> views.RunView:
    here, made = Folder(page_node(folder)), asked()
    found = here.read()
    held = next(each for each in found.states if each.digest == made.digest)
    cost = Cost(*verified(made.canonical, "hospital-a", Policy()))
    return run_view(here, found, held, cost, Ground(), views.Own("not computed"))


def test_every_field_that_a_person_is_shown_changes_the_digest(view: views.RunView) -> None:
    before = binding(view)
    assert before == binding(view)
    for each in fields(views.RunView):
        value = getattr(view, each.name)
        if each.name in STILL:
            assert binding(replace(view, **{each.name: STILL[each.name]})) == before, each.name
            continue
        match value:
            case bool():
                other: Any = not value
            case str():
                other = value + "!"
            case int():
                other = value + 1
            case tuple():
                other = (*value, value[0]) if value else (views.Reason("new", False, False),)
            case views.RunHead():
                other = replace(value, purpose="another")
            case views.Cost():
                other = replace(value, epsilon=9.0)
            case views.Budget():
                other = replace(value, epsilon_left=0.1)
            case views.Review():
                other = replace(value, objections=(views.Objection("ben", "no", "", ""),))
            case _:
                other = views.Admitted("hand", "x", "", False, ())
        if each.name in ("left",):
            other = (replace(value[0], most=1), *value[1:])
        assert binding(replace(view, **{each.name: other})) != before, each.name


def test_rounds_that_go_on_meanwhile_change_no_digest(view: views.RunView) -> None:
    moved = replace(view, head=replace(view.head, answered=7, at="later", waits="Round 8"))
    moved = replace(moved, left=tuple(replace(each, sent=99) for each in view.left))
    assert binding(moved) == binding(view)


def test_bytes_at_most_are_what_a_whole_run_sends(view: views.RunView) -> None:
    made = asked()
    assert [each.most for each in view.left] == [40 * (32 + 8 * made.longest_answer), 40 * 32, None]


def test_the_figures_are_the_accountants_and_what_is_left_is_the_ledgers(view: views.RunView) -> None:
    meaning, charge = verified(asked().canonical, "hospital-a", Policy())
    assert view.cost.epsilon == charge.cost.epsilon
    assert view.budget is not None
    assert view.budget.epsilon_left == pytest.approx(4.0 - view.budget.epsilon - charge.cost.epsilon)
    assert view.budget.asked == pytest.approx(charge.cost.epsilon)
    assert meaning.manifest.digest.hex() == view.head.digest


def test_what_a_page_cuts_off_is_marked_and_code_and_features_are_said() -> None:
    features = [{"kind": "number", "name": f"c{n:02d}_" + "x" * 50, "low": 0.0, "high": 1.0} for n in range(24)]
    code = {"kind": "torch:hospital.code:embed", "digest": f"sha256:{'ab' * 32}", "columns": 32}
    made = asked()
    body = {**made.schema.body, "features": features, "transform": [code]}
    other = replace(made, schema=Plain.of(body))
    said = {each.name: each.words for each in _uses(other, "hospital-a")}
    assert said["Columns, 24"].endswith("… (the manifest below has all of it)")
    assert said["Code that runs on the records"] == f"torch:hospital.code:embed, sha256:{'ab' * 32}"
    assert said["Features"].startswith("made by torch:hospital.code:embed")
    assert said["Data set"] == "not named: the only one of this institution"
