"""Who calls `fit`: whether the same records are fitted several times, or came through a step that learnt from them.

Both are what people do with scikit-learn without a second thought, and either makes the stated ε less than the truth.
The callers are read from the stack, so that it works under any of scikit-learn's helpers and in joblib's workers;
nothing of scikit-learn is imported here. What was done to the records before `fit` was called cannot be seen.
"""

import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

REPEATING = {
    "model_selection": "cross-validation or a search",
    "ensemble": "an ensemble",
    "calibration": "a calibration",
    "multiclass": "one fit for each class",
    "multioutput": "one fit for each output",
    "semi_supervised": "self-training",
}
"""Modules of scikit-learn that fit an estimator more than once, and what that is."""
LIBRARIES = ("parley", "sklearn", "joblib", "contextlib", "concurrent", "threading", "multiprocessing")
"""Whose lines a warning does not point at."""


class PrivacyWarning(UserWarning):
    """The stated ε is not all that these records are exposed to: a fit is one of several, or a step before it learnt.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", study.PrivacyWarning)      # a program that must not go on
    """


class BoundsWarning(UserWarning):
    """Bounds do not fit the records: for the eyes of whoever fits, and nobody else's.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", study.BoundsWarning)      # a notebook that others will read
    """


def warn(message: str, category: type[Warning] = PrivacyWarning) -> None:
    """At the user's own line."""
    level = 2
    for frame in _callers():
        if _module(frame).partition(".")[0] not in LIBRARIES:
            break
        level += 1
    warnings.warn(message, category, stacklevel=level)


def warn_of_surroundings() -> None:
    """Called by `fit`, before anything is released."""
    frames = list(_callers())
    repeated = next((said for frame in frames if (said := _repeating(frame))), None)
    if repeated:
        warn(
            f"these records are fitted more than once ({repeated}): every fit costs its own epsilon, and scores on "
            "private records have no noise at all. privacy_.total adds up the fits of this process; with n_jobs it "
            "cannot see those of other processes. Choose on public or made-up data instead"
        )
    learnt = sorted({name for frame in frames for name in _learnt_before(frame)})
    if learnt:
        warn(
            f"{', '.join(learnt)} learnt from the same records before this estimator: what it learnt goes into the "
            "model without noise, and epsilon does not cover it. Leave it out: bounds= and schema= scale and encode by "
            "public facts"
        )


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _repeating(frame: FrameType) -> str | None:
    parts = _module(frame).split(".")
    return REPEATING.get(parts[1]) if parts[0] == "sklearn" and len(parts) > 1 else None


def _learnt_before(frame: FrameType) -> Iterator[str]:
    """Names of the steps that were fitted before this estimator, by this caller."""
    module, caller = _module(frame), frame.f_locals.get("self")
    before: list[Any] = []
    if module == "sklearn.pipeline":
        before = [step for _, step in getattr(caller, "steps", [])[:-1]]
    elif module == "sklearn.compose._target":
        before = [getattr(caller, "transformer", None)]
    yield from (type(step).__name__ for step in before if _learns(step))


def _learns(step: Any) -> bool:
    """Whether fitting it reads the records; of what holds others, whether any of them does."""
    if step is None or isinstance(step, str):
        return False
    for name in ("transformers", "transformer_list", "steps"):
        if hasattr(step, name):
            return any(_learns(each[1]) for each in getattr(step, name))
    if not hasattr(step, "__sklearn_tags__"):
        return True
    return bool(step.__sklearn_tags__().requires_fit)
