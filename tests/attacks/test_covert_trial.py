"""What is counted of lies under audit: intervals that are exact, and tallies in which whatever is wrong shows."""

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from scipy.stats import binom

from parley.attacks.covert_lies import BETS, CAUGHT, LIES, MORE, REFUSED, known, made
from parley.attacks.covert_trial import FALSE_ALARM, Tally, interval
from parley.attacks.kinds import AttackError

EIGHTH = Fraction(1, 8)


@pytest.mark.parametrize("rate", [EIGHTH, Fraction(1, 2), Fraction(1, 16)])
@pytest.mark.parametrize("trials", [1, 48, 400, 5000])
def test_an_interval_is_the_exact_one(trials: int, rate: Fraction) -> None:
    found = binom(trials, float(rate))
    assert interval(trials, rate) == (found.ppf(FALSE_ALARM / 2), found.isf(FALSE_ALARM / 2))


def test_intervals_at_the_ends() -> None:
    assert interval(5, Fraction(1)) == (5, 5)
    assert interval(0, EIGHTH) == (0, 0)
    assert interval(1, EIGHTH) == (0, 1)


def tally(lie: str = "one-bit", **changes: Any) -> Tally:
    """Of a lie of which all is as it should be."""
    right: dict[str, Any] = {"signed": 400, "audited": 50, "caught": 50, "endings": Counter({"CaughtError": 50, "": 1})}
    return Tally(lie, 1, **{**right, **changes})


def refused(**changes: Any) -> Tally:
    return tally("last:share", **{"caught": 0, "endings": Counter({"SealBrokenError": 90}), **changes})


def test_a_tally_that_is_right() -> None:
    assert tally().wrong(EIGHTH) == []
    assert refused().wrong(EIGHTH) == []
    assert tally("guessed-pad", caught=0, endings=Counter({"PeerCheatedError": 400})).wrong(EIGHTH) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (tally(caught=49), "49 caught of 50"),
        (tally(convicted=1), "convicted the honest server"),
        (tally(misjudged=["no verdict"]), "no verdict"),
        (tally(audited=96, caught=96), "96 of 400 audited"),
        (tally(audited=13, caught=13), "13 of 400 audited"),
        (tally(endings=Counter({"SealBrokenError": 1})), "SealBrokenError"),
        (refused(caught=1), "1 caught"),
        (refused(endings=Counter({"SealBrokenError": 1, "": 1})), "1 sessions ended well"),
        (refused(endings=Counter({"CaughtError": 1})), "CaughtError"),
        (tally("guessed-pad", caught=0, endings=Counter({"PeerCheatedError": 20})), "400 of 420 bets"),
    ],
)
def test_whatever_is_wrong_with_a_tally_is_said(found: Tally, words: str) -> None:
    assert any(words in each for each in found.wrong(EIGHTH)), found.wrong(EIGHTH)


def test_every_lie_has_a_name_of_its_own_and_can_be_made() -> None:
    assert len(LIES) == len(CAUGHT) + len(REFUSED) + len(BETS) + len(MORE)
    for name in LIES:
        assert type(made(f"{name}:3" if name in ("silence", "mute") else name)) is known(name).made("").__class__
    with pytest.raises(AttackError):
        known("nobody")
