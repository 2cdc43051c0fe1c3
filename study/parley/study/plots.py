"""Pictures of plain arrays: a curve over rounds, ROC, calibration, a bar per class, predicted against true.

    plots.roc(scores, targets).save("roc.png")        # or .svg; a notebook shows the picture by itself
    plots.of_model(study.load("model.npz"), "public.csv").save("quality.svg")

Each gives a `Picture`. Nothing here touches matplotlib's global state, so a user's own figures stay as they are. Needs
the extra `plots`. What is drawn is public, or for the person who ran a simulation alone: the caller's to say.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parley.learning.metrics import Figure, auc, calibration_slope, of_classes, of_numbers, wilson
from parley.learning.models import sigmoid
from parley.learning.pictures import Example
from parley.study.errors import StudyError
from parley.study.model_file import LoadedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

Floats = NDArray[np.float64]

ACCENT, SECOND, THIRD, INK, SOFT, LINE = "#0f766e", "#8d5700", "#8a9099", "#16191c", "#5a626b", "#e2e3e0"
WRONG = "#b02a1c"
ACROSS = 6
"""Examples in a line."""
STYLE: dict[Any, Any] = {
    "font.size": 10, "font.family": "sans-serif", "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": SOFT,
    "xtick.color": SOFT, "ytick.color": SOFT, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": LINE, "grid.linewidth": 0.8, "axes.axisbelow": True, "axes.titlesize": 11,
    "axes.titlelocation": "left", "legend.frameon": False, "legend.fontsize": 9, "svg.hashsalt": "parley",
    "svg.fonttype": "path", "lines.linewidth": 2.0, "figure.facecolor": "white", "savefig.facecolor": "white",
}  # fmt: skip
SIZE = (6.4, 4.2)
"""Inches."""
EDGE = 0.08
"""Inches around each panel."""
DOTS_PER_INCH = 150
KINDS = ("png", "svg")
GROUPS = 10
"""Of a calibration plot, with nearly equally many records each."""
MOST_DOTS = 2000
"""More than so many predicted numbers are drawn as density."""
MOST_LABEL = 24
"""Characters of a label beside a bar."""


@dataclass(frozen=True)
class Picture:
    """What was drawn: to be saved, or shown by a notebook."""

    drawing: "Drawing"

    def save(self, path: Path | str) -> Path:
        """As PNG or SVG, by the file's ending."""
        path = Path(path)
        kind = path.suffix.removeprefix(".").lower()
        if kind not in KINDS:
            raise StudyError(f"{path.name} ends in neither .png nor .svg: name the file by what it shall be")
        try:
            path.write_bytes(self.as_bytes(kind))
        except OSError as error:
            raise StudyError(f"{path} cannot be written: {error.strerror}") from None
        return path

    def as_bytes(self, kind: str) -> bytes:
        """The same file for the same arrays: no date in it."""
        from matplotlib import rc_context

        file = io.BytesIO()
        with rc_context(STYLE):
            self.drawing.savefig(file, format=kind, dpi=DOTS_PER_INCH, metadata={"Date": None} if kind == "svg" else {})
        return file.getvalue()

    def _repr_png_(self) -> bytes:
        return self.as_bytes("png")


def curve(
    rounds: ArrayLike,
    values: ArrayLike,
    *,
    measure: str = "test loss",
    without_privacy: ArrayLike | None = None,
    constant: float | None = None,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    size: tuple[float, float] = SIZE,
) -> Picture:
    """A figure over rounds. `without_privacy` is one number, or one for each round; `low` and `high` are a band."""
    drawing, axes = _blank(size)
    x, y = np.asarray(rounds, np.float64), np.asarray(values, np.float64)
    with _style():
        if low is not None and high is not None:
            axes.fill_between(
                x, np.asarray(low, np.float64), np.asarray(high, np.float64), color=ACCENT, alpha=0.15, lw=0
            )
        axes.plot(x, y, color=ACCENT, label="private", marker="o" if len(x) < 2 else None)
        if without_privacy is not None:
            other = np.broadcast_to(np.asarray(without_privacy, np.float64), x.shape)
            axes.plot(x, other, color=SECOND, linestyle=(0, (5, 2)), label="without privacy (not private)")
        if constant is not None:
            axes.axhline(constant, color=THIRD, linestyle=(0, (1, 1.5)), label="the same answer for everybody")
        axes.set(xlabel="round", ylabel=measure)
        axes.margins(x=0.02)
        axes.xaxis.get_major_locator().set_params(integer=True)
        drawing.legend(loc="outside upper left", ncols=1)
    return _done(drawing)


def roc(scores: ArrayLike, targets: ArrayLike, *, size: tuple[float, float] = (4.6, 4.6)) -> Picture:
    """True against false positives at every threshold, with the area under it. Targets are 0 and 1."""
    drawing, axes = _blank(size)
    _roc(axes, *_both(scores, targets))
    return _done(drawing)


def calibration(scores: ArrayLike, targets: ArrayLike, *, size: tuple[float, float] = (4.6, 4.6)) -> Picture:
    """What was said against what came of it, by groups of records; scores are those of `decision_function`."""
    drawing, axes = _blank(size)
    _calibration(axes, *_both(scores, targets))
    return _done(drawing)


def bars(figures: Mapping[str, Figure], *, title: str = "", size: tuple[float, float] | None = None) -> Picture:
    """Figures between 0 and 1 with their intervals, a bar each: `auc[LABEL]` of every class, say."""
    drawing, axes = _blank(size or (SIZE[0], max(1.6, 0.9 + 0.34 * len(figures))))
    _bars(axes, figures)
    if title:
        drawing.suptitle(title, x=0.01, horizontalalignment="left", size=STYLE["axes.titlesize"])  # wider than the bars
    return _done(drawing)


def predicted(
    said: ArrayLike, true: ArrayLike, *, name: str = "value", size: tuple[float, float] = (4.6, 4.6)
) -> Picture:
    """Predicted numbers against true ones; on the line they agree."""
    drawing, axes = _blank(size)
    _predicted(axes, np.asarray(said, np.float64), np.asarray(true, np.float64), name)
    return _done(drawing)


def of_model(model: LoadedModel, data: Any, *, size: tuple[float, float] | None = None) -> Picture:
    """A model on PUBLIC rows with their labels, by its kind: ROC and calibration; a bar per class; predicted, true."""
    records = model.records_of(data)
    scores, target = model.outputs(records.rows), model.schema.target
    if target.kind == "binary":
        drawing, axes = _blank(size or (9.2, 4.6), panels=2)
        _roc(axes[0], scores[:, 0], records.targets)
        _calibration(axes[1], scores[:, 0], records.targets)
        return _done(drawing)
    if target.kind == "classes":
        found = of_classes(scores, records.targets, target.classes)
        each = {name[4:-1]: figure for name, figure in found.items() if name.startswith("auc[")}
        return bars(each, title="AUC against all others", size=size)
    true = records.targets * target.spread + target.centre
    return predicted(model.decided(scores), true, name=target.name, size=size or (4.6, 4.6))


def examples(found: Sequence[Example]) -> Picture:
    """PUBLIC pictures in two rows and more: wrong answers, the surest first, then right ones, the least sure first."""
    from matplotlib.image import imread

    groups = [[each for each in found if each.right is right] for right in (False, True)]
    lines = [group[start : start + ACROSS] for group in groups for start in range(0, len(group), ACROSS)]
    drawing, axes = _blank((ACROSS * 1.25, len(lines) * 1.65), rows=len(lines), panels=ACROSS)
    with _style():
        for place, panel in enumerate(np.ravel(axes)):
            panel.set_axis_off()
            line = lines[place // ACROSS]
            if place % ACROSS >= len(line):
                continue
            each = line[place % ACROSS]
            panel.imshow(imread(io.BytesIO(each.png), format="png"), cmap="gray", vmin=0, vmax=1)
            chance = "" if each.chance is None else f" {each.chance:.0%}"
            said = f"{_short(each.answer)}{chance}" + ("" if each.right else f"\nis {_short(each.truth)}")
            panel.set_title(said, fontsize=8, loc="center", color=ACCENT if each.right else WRONG)
    return _done(drawing)


# ------------------------------------------------------------ panels


def _roc(axes: "Axes", scores: Floats, targets: Floats) -> None:
    positive = targets > 0.5
    found = auc(scores, positive)
    if found is None:
        raise StudyError("a ROC curve needs records of both labels: the set has one of them only")
    false, true = _rates(scores, positive)
    with _style():
        axes.plot([0, 1], [0, 1], color=THIRD, linestyle=(0, (1, 1.5)), lw=1.2)
        axes.plot(false, true, color=ACCENT, drawstyle="default", solid_joinstyle="round")
        axes.set(xlabel="false positives", ylabel="true positives", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes.set(title=f"AUC {found}", aspect="equal")


def _rates(scores: Floats, positive: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Corners of the curve: both rates at every score that occurs, from the highest."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    true, false = (np.append(0, np.cumsum(each[order])[ends]) for each in (positive, ~positive))
    # Points on a straight line between their neighbours show nothing.
    turns = np.ones(len(true), np.bool_)
    turns[1:-1] = np.diff(true[:-1]) * np.diff(false[1:]) != np.diff(false[:-1]) * np.diff(true[1:])
    return false[turns] / (~positive).sum(), true[turns] / positive.sum()


def _calibration(axes: "Axes", scores: Floats, targets: Floats) -> None:
    positive = targets > 0.5
    chance, slope = sigmoid(scores), calibration_slope(scores, positive)
    order = np.argsort(chance, kind="stable")
    groups = [each for each in np.array_split(order, GROUPS) if len(each)]
    said = np.array([chance[each].mean() for each in groups])
    found = [wilson(float(positive[each].mean()), len(each)) for each in groups]
    came = np.array([each.value for each in found])
    with _style():
        axes.plot([0, 1], [0, 1], color=THIRD, linestyle=(0, (1, 1.5)), lw=1.2)
        axes.errorbar(said, came, yerr=_reach(found), color=ACCENT, fmt="o-", lw=1.6, ms=5, elinewidth=1)
        axes.set(xlabel="predicted probability", ylabel="observed share", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes.set(title=f"slope {slope}" if slope else "calibration", aspect="equal")


def _bars(axes: "Axes", figures: Mapping[str, Figure]) -> None:
    names = [_short(name) for name in figures]
    found, places = list(figures.values()), np.arange(len(figures))
    values = [each.value for each in found]
    with _style():
        axes.barh(places, values, height=0.62, color="#7dbab4")
        axes.errorbar(values, places, xerr=_reach(found), fmt="none", ecolor=INK, elinewidth=1.2, capsize=3)
        axes.set_yticks(places, names)
        axes.set(xlim=(0, 1))
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        right = axes.secondary_yaxis("right")
        right.set_yticks(places, [f"{each.value:.3f}" for each in found])
        right.tick_params(length=0, labelcolor=INK)
        right.spines["right"].set_visible(False)


def _predicted(axes: "Axes", said: Floats, true: Floats, name: str) -> None:
    found = of_numbers(said, true)
    ends = np.array([min(said.min(), true.min()), max(said.max(), true.max())])
    ends = ends + np.array([-1, 1]) * 0.03 * max(float(np.ptp(ends)), 1e-9)
    with _style():
        if len(said) > MOST_DOTS:
            axes.hexbin(true, said, gridsize=45, extent=(*ends, *ends), cmap=_shades(), bins="log", mincnt=1, lw=0.1)
        else:
            axes.plot(true, said, "o", color=ACCENT, ms=3.5, alpha=0.45, mew=0)
        axes.plot(ends, ends, color=INK, linestyle=(0, (1, 1.5)), lw=1.2)
        axes.set(
            xlabel=f"true {_short(name)}", ylabel=f"predicted {_short(name)}", xlim=ends, ylim=ends, aspect="equal"
        )
        axes.set(title=f"R² {found['r2']}" if "r2" in found else "")


# ------------------------------------------------------------ help


def _blank(size: tuple[float, float], panels: int = 1, rows: int = 1) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with _style():
        drawing = Drawing(figsize=size, layout=ConstrainedLayoutEngine(w_pad=EDGE, h_pad=EDGE))
        FigureCanvasAgg(drawing)
        return drawing, drawing.subplots(rows, panels)


def _done(drawing: "Drawing") -> Picture:
    """Laid out once, so that it is the same whatever it is saved as."""
    with _style():
        drawing.draw_without_rendering()
        drawing.draw_without_rendering()  # a title's place is known only once the axes have theirs
        drawing.set_layout_engine("none")
    return Picture(drawing)


def _style() -> Any:
    from matplotlib import rc_context

    return rc_context(STYLE)


def _shades() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("parley", ["#d3e8e5", ACCENT, "#06211e"])


def _both(scores: ArrayLike, targets: ArrayLike) -> tuple[Floats, Floats]:
    one, other = np.asarray(scores, np.float64).ravel(), np.asarray(targets, np.float64).ravel()
    if not len(one) or len(one) != len(other):
        raise StudyError(f"{len(one)} scores and {len(other)} targets: give as many of both, and at least one")
    return one, other


def _reach(figures: Sequence[Figure]) -> Floats:
    """Down and up from each value; nothing where there is no interval."""
    return np.array(
        [
            [each.value - (each.value if each.low is None else each.low) for each in figures],
            [(each.value if each.high is None else each.high) - each.value for each in figures],
        ]
    ).clip(min=0.0)


def _short(text: str) -> str:
    """As a label, and never as a formula: matplotlib reads what is between two dollar signs as one."""
    cut = text if len(text) <= MOST_LABEL else text[: MOST_LABEL - 1] + "…"
    return cut.replace("$", r"\$")
