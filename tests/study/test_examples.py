"""Examples of right and wrong answers: of a public test set of pictures, and of nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from parley.study.errors import StudyError
from parley.study.result import Result
from parley.study.study import Study
from tests.study.test_plan import QUICK
from tests.support.pictures import SIDE, STUDY, bright

SEEN = {**STUDY, "transform": {"kind": "scattering", "shape": [1, SIDE, SIDE], "scales": 1, "groups": 9}}


def simulated(columns: dict[str, Any] = SEEN, test: Any = None) -> Result:
    study = Study(columns, model="softmax", epsilon=3.0, algorithm=QUICK)
    return study.simulate(rows(120), test=rows(40, 1) if test is None else test, seeds=1)


def rows(count: int, seed: int = 0) -> dict[str, Any]:
    values, labels = bright(count, seed)
    return {**{f"p{place}": values[:, place].tolist() for place in range(SIDE * SIDE)}, "label": labels.tolist()}


def test_they_are_of_the_public_test_set_and_drawn(tmp_path: Path) -> None:
    result = simulated()
    _, labels = bright(40, 1)
    assert result.examples
    assert all(labels[each.row] == each.truth for each in result.examples)
    result.plot(tmp_path / "examples.png", what="examples")
    assert imread(tmp_path / "examples.png").ndim == 3
    result.plot(tmp_path / "curve.svg")
    assert "examples" not in str(result.as_json()), "what a script reads has no pictures"


@pytest.mark.parametrize(("columns", "test"), [(SEEN, 0.25), (STUDY, None)])
def test_no_row_that_was_held_out_of_the_records_is_shown_and_none_that_is_no_picture(
    columns: dict[str, Any], test: Any
) -> None:
    result = simulated(columns, test)
    assert result.examples == ()
    with pytest.raises(StudyError, match=r"no examples to show: they are of a public test set \(test=\)"):
        result.plot(what="examples")
    with pytest.raises(StudyError, match="what is 'pictures': use curve or examples"):
        result.plot(what="pictures")


def test_made_up_pictures_are_smooth_and_can_be_learned_from() -> None:
    study = Study(SEEN, model="softmax", epsilon=3.0, algorithm=QUICK)
    made = study.made_up(400)
    values = np.array([made[name] for name in made if name != "label"], float).T.reshape(-1, SIDE, SIDE)
    assert values.min() >= 0
    assert values.max() <= 255
    beside = np.corrcoef(values[:, :, :-1].ravel(), values[:, :, 1:].ravel())[0, 1]
    far = np.corrcoef(values[:, 0, 0], values[:, -1, -1])[0, 1]
    assert beside > 0.5 > abs(far)
    assert study.made_up(3) == study.made_up(3)
    assert set(made["label"]) == {"left", "right"}
