"""Pictures: of the right numbers, by the file's ending, the same bytes twice, and nothing cut off or overlapping."""

import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text
from PIL import Image
from sklearn.metrics import roc_curve

from parley.learning.metrics import Figure
from parley.learning.models import sigmoid
from parley.study import plots
from parley.study.errors import StudyError
from parley.study.model_file import LoadedModel
from parley.study.plots import Picture

# What an earlier test has left open is closed whenever memory is collected, and is not a picture's fault.
pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
RNG = np.random.default_rng(1)
SCORES = RNG.normal(0, 1.5, 230)
LABELS = (RNG.random(230) < sigmoid(SCORES)).astype(np.float64)
NUMBERS = RNG.normal(120, 15, 2500)
ROUNDS = np.arange(1, 61)
CURVE = 0.4 + np.exp(-ROUNDS / 12)
AREAS = {name: Figure(0.8, 0.7, 0.9) for name in ("one", "a very long label with $x^2$ and more", "three")}

KINDS: dict[str, Callable[..., Picture]] = {
    "curve": lambda **size: plots.curve(
        ROUNDS, CURVE, without_privacy=0.41, constant=0.69, low=CURVE - 0.02, high=CURVE + 0.02, **size
    ),
    "roc": lambda **size: plots.roc(SCORES, LABELS, **size),
    "calibration": lambda **size: plots.calibration(SCORES, LABELS, **size),
    "bars": lambda **size: plots.bars(AREAS, title="AUC against all others", **size),
    "predicted": lambda **size: plots.predicted(NUMBERS[:300] + 3, NUMBERS[:300], name="pressure", **size),
    "predicted, many": lambda **size: plots.predicted(NUMBERS + 3, NUMBERS, name="pressure", **size),
}


def axes_of(picture: Picture) -> Any:
    return picture.drawing.axes[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(8.0, 5.6), (3.4, 3.0)])
def test_nothing_is_cut_off_and_no_text_lies_on_another(
    kind: str, size: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing, drawn, draw = KINDS[kind](size=size).drawing, list[Text](), Text.draw

    def noted(text: Text, *others: Any, **more: Any) -> None:
        drawn.append(text)
        draw(text, *others, **more)

    monkeypatch.setattr(Text, "draw", noted)
    drawing.draw_without_rendering()
    boxes = [(each.get_text(), each.get_window_extent()) for each in drawn if each.get_visible() and each.get_text()]
    assert len(boxes) > 5
    for text, box in boxes:
        assert -1 <= box.x0 <= box.x1 <= drawing.bbox.width + 1, text
        assert -1 <= box.y0 <= box.y1 <= drawing.bbox.height + 1, text
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not a.overlaps(b), (one, other)


def test_the_curve_of_a_classifier_is_scikit_learns() -> None:
    line = axes_of(plots.roc(SCORES, LABELS)).lines[1]
    false, true, _ = roc_curve(LABELS, SCORES, drop_intermediate=False)
    drawn, whole = {tuple(each) for each in line.get_xydata()}, set(zip(false, true, strict=True))
    assert drawn <= whole
    assert {(0.0, 0.0), (1.0, 1.0)} <= drawn
    assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(np.trapezoid(true, false))


def test_tied_scores_make_one_step() -> None:
    line = axes_of(plots.roc([0, 0, 1, 1], [0, 1, 0, 1])).lines[1]
    assert np.column_stack(line.get_data()).tolist() == [[0, 0], [1, 1]]


def test_a_curve_over_rounds_has_the_two_lines_beside_it_and_says_which_is_not_private() -> None:
    picture = plots.curve(ROUNDS, CURVE, without_privacy=0.41, constant=0.69)
    private, without, constant = axes_of(picture).lines
    assert np.array_equal(private.get_ydata(), CURVE)
    assert set(without.get_ydata()) == {0.41}
    assert set(constant.get_ydata()) == {0.69}
    assert "not private" in without.get_label()
    assert len(axes_of(plots.curve([1], [0.5])).lines) == 1


def test_a_picture_is_what_its_ending_says_and_the_same_twice(tmp_path: Path) -> None:
    picture = plots.roc(SCORES, LABELS)
    png, svg = picture.save(tmp_path / "a.png"), picture.save(tmp_path / "a.SVG")
    with Image.open(png) as found:
        assert found.format == "PNG"
    assert "<svg" in svg.read_text()
    assert plots.roc(SCORES, LABELS).as_bytes("svg") == svg.read_bytes()
    assert picture._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(StudyError, match=r"neither .png nor .svg"):
        picture.save(tmp_path / "a.gif")
    with pytest.raises(StudyError, match="cannot be written"):
        picture.save(tmp_path / "none" / "a.png")


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(StudyError, match="both labels"):
        plots.roc([1, 2], [1, 1])
    with pytest.raises(StudyError, match="as many of both"):
        plots.calibration([1, 2], [1])


@pytest.mark.parametrize(
    ("kind", "target", "theta", "title"),
    [
        ("logistic", {"kind": "binary", "positive": ["1"], "negative": ["0"]}, [1.0, -1.0], "AUC"),
        ("softmax", {"kind": "classes", "classes": ["0", "1"]}, [1.0, 0.0, -1.0, 0.0], "AUC against"),
        ("linear", {"kind": "number", "low": 0.0, "high": 1.0}, [1.0, 0.5], "R²"),
    ],
)
def test_a_model_is_drawn_by_its_kind(kind: str, target: dict[str, Any], theta: list[float], title: str) -> None:
    features = [{"kind": "number", "name": name, "low": 0.0, "high": 1.0} for name in ("a", "b")]
    model = LoadedModel(
        np.array(theta),
        {"model": {"kind": kind}, "schema": {"features": features, "target": {"name": "y", **target}}},
        {},
    )
    data = {"a": [0.1, 0.9, 0.4, 0.7], "b": [0.5, 0.1, 0.9, 0.2], "y": ["0", "1", "0", "1"]}
    picture = plots.of_model(model, data)
    assert (picture.drawing.get_suptitle() or axes_of(picture).get_title("left")).startswith(title)
    pixels = imread(io.BytesIO(picture.as_bytes("png")))[..., :3]
    for edge in (pixels[:2], pixels[-2:], pixels[:, :2], pixels[:, -2:]):
        assert (edge == 1).all(), "something is cut off"


def test_a_users_own_settings_stay() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.roc(SCORES, LABELS).as_bytes("png")
    assert dict(matplotlib.rcParams) == before
