"""What a local fit may be asked, and how far one record moves it: the lemmas' figures, by hand."""

from typing import Any

import pytest

from parley.federation.question import BUCKETS, LocalFit, answer_length
from parley.privacy.errors import InvalidParameterError

DESCENT = {"method": "descent", "steps": 10, "step": 0.1, "strength": 0.0, "reach": 2.0}
PERMUTED = {**DESCENT, "method": "permuted-sgd"}


def fit(body: dict[str, Any] = DESCENT, **changes: Any) -> LocalFit:
    return LocalFit(**{**body, **changes})


@pytest.mark.parametrize(
    ("kind", "points", "length"),
    [("norms", 1, BUCKETS), ("framed norms", 1, BUCKETS), ("losses", 7, 6), ("gradient", 2, 54), ("solution", 1, 54)],
)
def test_as_many_integers_answer_a_question_as_there_is_noise_for(kind: str, points: int, length: int) -> None:
    assert answer_length(kind, points, 54) == length


@pytest.mark.parametrize(
    ("asked", "moved"),
    [
        (fit(), 3 * 1.5 * 10 * 0.1 / 200),
        (fit(strength=0.5), 5 * 3.0 * (0.5 + 4.5) / (200 * 0.5 * 4.5)),
        (fit(PERMUTED), 2 * 10 * 1.5 * 0.1),
    ],
    ids=["convex", "strongly", "permuted"],
)
def test_one_record_moves_the_fit_as_far_as_the_lemma_says(asked: LocalFit, moved: float) -> None:
    assert asked.sensitivity(1.5, 4.0, 200) == pytest.approx(moved, rel=1e-12)


@pytest.mark.parametrize(
    ("body", "strength", "largest", "says"),
    [
        (DESCENT, 0.0, 1 / 4, "exceeds 1/β"),
        (DESCENT, 0.5, 1 / (4 + 2 * 0.5), r"exceeds 1/\(β"),
        (PERMUTED, 0.0, 2 / 4, "exceeds 2/β"),
    ],
    ids=["convex", "strongly", "permuted"],
)
def test_a_step_beyond_the_lemmas_condition_has_no_sensitivity(
    body: dict[str, Any], strength: float, largest: float, says: str
) -> None:
    assert fit(body, strength=strength, step=largest).sensitivity(1.0, 4.0, 100) > 0
    with pytest.raises(InvalidParameterError, match=says):
        fit(body, strength=strength, step=largest * 1.001).sensitivity(1.0, 4.0, 100)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"method": "newton"}, "no local method 'newton'"),
        ({"steps": 0}, "steps of 1 to 100,000"),
        ({"steps": 100_001}, "steps of 1 to 100,000"),
        ({"step": 0.0}, "a step, a reach"),
        ({"step": float("nan")}, "a step, a reach"),
        ({"reach": float("inf")}, "a step, a reach"),
        ({"strength": -1.0}, "a step, a reach"),
        ({"method": "permuted-sgd", "strength": 0.1}, "set strength to 0"),
    ],
)
def test_a_fit_that_cannot_be_accounted_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidParameterError, match=says):
        fit(**changes)


def test_rounding_grows_with_the_records_and_for_permuted_passes_with_each_of_their_steps() -> None:
    assert fit().rounding(100) == 100 * (100 + 10) * 2.0**-50
    assert fit(PERMUTED).rounding(100) == 100 * (100 + 1000) * 2.0**-50
