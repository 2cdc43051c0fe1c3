"""The picture of a budget, and times."""

import re
from dataclasses import replace

from parley.page.pages import spent_picture, when
from parley.page.views import Budget, Charged

RUN = Charged("heart-1", "", 1.5, 1e-5, "", 1, 40, "by policy", "settled")
BUDGET = Budget("patients", "row", "basic", 2.5, 4.0, 1.5, 2e-5, 1e-4, 8e-5, "", "", (RUN, replace(RUN, epsilon=1.0)))


def widths(budget: Budget) -> list[float]:
    return [
        float(each)
        for each in re.findall(r'class="(?:done|done other|asked)" x="[\d.]+" width="([\d.]+)"', spent_picture(budget))
    ]


def test_runs_stand_one_after_the_other_and_what_is_asked_comes_last() -> None:
    assert widths(BUDGET) == [375.0, 250.0]
    assert widths(replace(BUDGET, asked=1.0)) == [375.0, 250.0, 250.0]
    assert "this run would take 1" in spent_picture(replace(BUDGET, asked=1.0))
    beyond = replace(BUDGET, asked=4.0)
    assert sum(widths(beyond)) <= 1000.1
    assert 'class="rest" width="615.38"' in spent_picture(beyond), "the cap is seen where it is passed"


def test_where_runs_do_not_add_up_the_whole_is_one_piece() -> None:
    assert widths(replace(BUDGET, rule="rdp", epsilon=2.0)) == [500.0]
    assert widths(replace(BUDGET, runs=(), epsilon=0.0)) == []


def test_a_name_of_a_stranger_is_escaped_in_the_picture() -> None:
    assert "<b>" not in spent_picture(replace(BUDGET, runs=(replace(RUN, name="<b>", epsilon=2.5),)))


def test_a_time_is_shown_to_the_minute_and_what_is_none_is_escaped() -> None:
    assert "2026-11-20 09:58 UTC" in when("2026-11-20T09:58:19+00:00")
    assert when("") == "–"
    assert "<" not in when("<i>")
