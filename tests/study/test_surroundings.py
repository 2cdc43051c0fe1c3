"""Who calls a fit is read from the stack: scikit-learn's helpers, and nothing of the user's own."""

import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from parley.study.surroundings import PrivacyWarning, warn, warn_of_surroundings


def called_from(module: str, body: str, **names: Any) -> Callable[..., Any]:
    """A function `called` in a module of this name."""
    made = types.ModuleType(module)
    vars(made).update(names)
    exec(f"def called(self=None):\n    {body}", vars(made))
    return vars(made)["called"]  # type: ignore[no-any-return]


def said(call: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in seen if each.category is PrivacyWarning]


@pytest.mark.parametrize(
    ("module", "word"),
    [
        ("sklearn.model_selection._search", "a search"),
        ("sklearn.ensemble._bagging", "an ensemble"),
        ("sklearn.multiclass", "one fit for each class"),
    ],
)
def test_what_fits_more_than_once_is_named(module: str, word: str) -> None:
    (message,) = said(called_from(module, "fit()", fit=warn_of_surroundings))
    assert word in message


@pytest.mark.parametrize("module", ["sklearn.base", "sklearn", "mine.model_selection", "model_selection", "__main__"])
def test_nothing_else_is(module: str) -> None:
    assert said(called_from(module, "fit()", fit=warn_of_surroundings)) == []


def test_a_step_without_tags_counts_as_one_that_learns() -> None:
    class Pipe:
        steps = (("own", object()), ("model", None))

    (message,) = said(lambda: called_from("sklearn.pipeline", "fit()", fit=warn_of_surroundings)(Pipe()))
    assert message.startswith("object learnt from the same records")


def test_a_warning_points_past_the_libraries_at_whoever_called() -> None:
    inner = called_from("parley.study.estimators", "warn('careful')", warn=warn)
    outer = called_from("joblib.parallel", "inner()", inner=inner)
    with pytest.warns(PrivacyWarning, match="careful") as seen:
        outer()
    assert seen[0].filename == __file__
