"""What a page may show is on a list, whatever element it stands in."""

import dataclasses
from typing import Any

import pytest

from parley.coordinator.store import RoundRecord
from parley.dashboard.allowed import ALLOWED, NotAllowedError, check
from parley.dashboard.views import RunHead
from parley.learning.pictures import Example
from tests.support.browser import Make
from tests.support.folders import FakeOperator
from tests.support.pages import PAGES, wait_for
from tests.support.pictures import with_examples


def walk(value: Any, found: set[tuple[str, str]]) -> None:
    """Every field of every view."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            found.add((type(value).__name__, field.name))
            walk(getattr(value, field.name), found)
    elif isinstance(value, tuple):
        for each in value:
            walk(each, found)
    else:
        assert value is None or type(value) in (bool, int, float, str), type(value)


@pytest.mark.parametrize("rounds", [0, 10])
@pytest.mark.slow
def test_the_data_behind_every_element_is_on_the_list(browser: Make, rounds: int) -> None:
    made = browser(rounds, FakeOperator(caught=True)).login()
    made.operator.troubles = (("south", "silent", 2.5),)
    with_examples(made.state, made.document.digest)
    for path in (*PAGES, "/runs/heart-1/examples"):
        made.client.get(path)
    wait_for(made, "/runs/heart-1?part=live", "chart-spent")
    wait_for(made, "/runs/heart-1?part=live", "south</strong> does not answer")
    wait_for(made, "/runs/heart-1?part=live", "7 batches of the other server audited")
    wait_for(made, "/runs/heart-1?part=live", "It has evidence that the other server did not follow")
    wait_for(made, "/runs/heart-1/privacy", "Ledger head</dt><dd><code>")
    shown: set[tuple[str, str]] = set()
    for _, view in made.views:
        walk(view, shown)
    assert shown
    assert all(field in ALLOWED[name] for name, field in shown)
    if rounds:
        listed = {(name, field) for name, fields in ALLOWED.items() for field in fields} - {("Page", "csrf")}
        # What no page has shown here: around pages, and the end of a run.
        assert {name for name, _ in listed - shown} <= {"Page", "Ending"}


def test_a_field_that_is_not_on_the_list_is_never_rendered() -> None:
    @dataclasses.dataclass(frozen=True)
    class Totals:
        gradient_norm: float

    with pytest.raises(NotAllowedError, match="gradient_norm"):
        check(Totals(1.0))
    for value in (b"share", [1.0], {"a": 1}, float("nan"), "x" * 5000, RunHead):
        with pytest.raises(NotAllowedError):
            check(value)


def test_the_store_keeps_nothing_but_what_pages_may_show() -> None:
    """A field that somebody adds to the record of a round has to be argued for here."""
    assert {field.name for field in dataclasses.fields(RoundRecord)} == {
        "round", "at", "seconds", "waited_seconds", "agreed_seconds", "noised_seconds", "stepped_seconds",
        "contributors", "missing", "estimator_norm", "noise_norm", "bytes_down", "bytes_up", "evaluation",
    }  # fmt: skip
    assert {field.name for field in dataclasses.fields(Example)} == {"row", "truth", "answer", "chance", "png"}
