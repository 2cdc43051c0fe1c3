"""Who waits for a long fit hears how far it has come; of a short one nothing."""

from typing import Any

import pytest

from parley.study import pace
from parley.study.pace import Pace, in_words
from tests.study.test_imitation import study


def heard(seconds_a_round: float, rounds: int) -> list[str]:
    now, said = [0.0], list[str]()
    each = Pace(said.append, "fit 1 of 2", rounds, clock=lambda: now[0])
    for made in range(1, rounds + 1):
        now[0] += seconds_a_round
        each(made)
    return said


def test_a_short_fit_says_nothing() -> None:
    assert heard(0.01, 300) == []


def test_a_long_one_says_every_ten_seconds_where_it_is() -> None:
    assert heard(4.0, 9) == [
        "fit 1 of 2: round 3 of 9, about 24 s left of this fit",
        "fit 1 of 2: round 6 of 9, about 12 s left of this fit",
    ]


def test_minutes() -> None:
    assert in_words(59.0) == "59 s"
    assert in_words(150.0) == "2 min"


def test_a_simulation_tells_of_every_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "EVERY_SECONDS", 0.0)
    wanted, said = study(), list[Any]()
    wanted.simulate(wanted.made_up(60), test=wanted.made_up(60, seed=1), seeds=2, progress=said.append)
    assert {each.split(":")[0] for each in said} == {
        "planning the rounds and calibrating their noise",
        "fit 1 of 2",
        "fit 2 of 2",
        "the fit without privacy",
    }
