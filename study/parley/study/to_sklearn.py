"""A model as a fitted estimator of plain scikit-learn, which needs no parley to predict.

    estimator = study.load("model.npz").to_sklearn()
    estimator.predict_proba(frame)                   # a pandas or polars frame with the columns by name

The pipeline is fitted to made-up rows, so that scikit-learn sets its own state, and then given the model's numbers. Its
steps are what `parley.learning.records` does to a cell: cut to the bounds, (value − centre) / spread, rounded to the
lattice; a word becomes one column per spelling. Python only: parley writes no pickle, for reading one runs its code.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.checks import label_of
from parley.learning.columns import Category, Column, Date, Number, Uniform
from parley.learning.errors import ModelFileError
from parley.learning.holding import CSV
from parley.study.model_file import LoadedModel
from parley.study.portable import Layer, Portable, portable, scale_of, spellings

Floats = NDArray[np.float64]
EMPTY = ("nan", "None", "<NA>", "NaT")
"""How NumPy spells an empty cell of a frame as text."""
NO_DAY = float(np.iinfo(np.int64).min)
"""What NumPy makes of a day that is none."""


def to_sklearn(model: LoadedModel) -> Any:
    """A fitted Pipeline: of named columns for frames, of features under one bound for arrays."""
    from sklearn.pipeline import make_pipeline

    found = portable(model)
    before, turn, constant = _encoder(found)
    layers = [Layer(turn @ found.layers[0].weights, found.layers[0].bias + constant @ found.layers[0].weights)]
    layers += found.layers[1:]
    last = _estimator(model, layers, found.activation)
    made = make_pipeline(before, last)
    rows, answers = _made_up(model, found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that these few rows were not learnt: nothing of them stays
        made.fit(rows, answers)
    _set_numbers(before, found)
    _set_parameters(model, last, layers)
    return made


# ------------------------------------------------------------ columns


def _encoder(found: Portable) -> tuple[Any, Floats, Floats]:
    """A transformer, and what makes its columns ours: z·turn + constant."""
    from sklearn.compose import ColumnTransformer

    if isinstance(found.columns, Uniform):
        return _number_steps(found, []), np.eye(found.columns.count), np.zeros(found.columns.count)
    starts = np.cumsum([0, *(each.width for each in found.columns)])
    units, parts, turns = np.eye(int(starts[-1])), [], []
    constant = np.zeros(int(starts[-1]))
    for name, columns in _groups(found).items():
        names, at = [each.name for each in columns], [_place(found, each) for each in columns]
        parts.append((name, _number_steps(found, columns), names))
        turns.append(units[starts[at]])
        if marked := [(each.name, place) for each, place in zip(columns, at, strict=True) if each.indicated]:
            parts.append((f"{name}, empty", _marks(columns[0]), [each for each, _ in marked]))
            turns.append(units[starts[[place for _, place in marked]] + 1])
    for index, each in enumerate(found.columns):
        if isinstance(each, Category):
            words, turn, other = _words(each)
            parts.append((f"category {index}", _category_steps(each, words), [each.name]))
            turns.append(turn @ units[starts[index] : starts[index + 1]])
            constant[starts[index] : starts[index + 1]] = other
    return ColumnTransformer(parts, sparse_threshold=0.0), np.concatenate(turns), constant


def _groups(found: Portable) -> dict[str, list[Number | Date]]:
    """Columns with the same steps, by a name for them."""
    groups: dict[str, list[Number | Date]] = {}
    for each in found.named:
        if not isinstance(each, Category):
            kind = "dates" if isinstance(each, Date) else "logarithms" if each.transform == "log1p" else "numbers"
            empty = "" if each.missing == "refuse" else " that may be empty"
            groups.setdefault(kind + empty, []).append(each)
    return groups


def _place(found: Portable, column: Column) -> int:
    return next(index for index, each in enumerate(found.named) if each is column)


def _raw_steps(column: Number | Date | Uniform) -> list[tuple[str, Any]]:
    """Cells as numbers, NaN where they are empty; a date's are days since 1970."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import FunctionTransformer

    if not isinstance(column, Date):
        return [("as numbers", FunctionTransformer(np.asarray, kw_args={"dtype": np.float64}))]
    none = SimpleImputer(missing_values=NO_DAY, strategy="constant", fill_value=np.nan, keep_empty_features=True)
    return [
        ("as days", FunctionTransformer(np.asarray, kw_args={"dtype": "datetime64[D]"})),
        ("as numbers", FunctionTransformer(np.asarray, kw_args={"dtype": np.float64})),
        ("no day", none),
    ]


def _marks(column: Number | Date) -> Any:
    """A 1 where a cell is empty."""
    from sklearn.impute import MissingIndicator
    from sklearn.pipeline import Pipeline

    return Pipeline([*_raw_steps(column), ("mark", MissingIndicator(features="all"))])


def _number_steps(found: Portable, columns: Sequence[Number | Date]) -> Any:
    """Cut, scaled, rounded, filled. What is empty and may not be stays NaN, which the estimator refuses."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    first = columns[0] if columns else found.columns
    assert not isinstance(first, tuple)
    ends = np.array([scale_of(each)[:2] for each in columns] or [first.ends])
    steps = [*_raw_steps(first), ("cut", _clip(ends))]
    if isinstance(first, Number) and first.transform == "log1p":
        steps += [
            ("logarithm", FunctionTransformer(np.log1p)),
            ("cut again", _clip(np.array([e.ends for e in columns]))),
        ]
    steps += [
        ("scale", StandardScaler()),
        ("to steps", StandardScaler()),
        ("round", FunctionTransformer(np.rint)),
        ("from steps", StandardScaler()),
    ]
    if getattr(first, "missing", "refuse") != "refuse":
        steps.append(("fill", SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)))
    return Pipeline(steps)


def _clip(ends: Floats) -> Any:
    from sklearn.preprocessing import FunctionTransformer

    return FunctionTransformer(np.clip, kw_args={"a_min": ends[:, 0], "a_max": ends[:, 1]})


def _category_steps(column: Category, words: list[str]) -> Any:
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

    unknown = "error" if column.other == "refuse" else "ignore"
    return Pipeline(
        [
            ("as text", FunctionTransformer(np.asarray, kw_args={"dtype": np.str_})),
            ("strip", FunctionTransformer(np.char.strip)),
            ("encode", OneHotEncoder(categories=[np.array(words)], handle_unknown=unknown, sparse_output=False)),
        ]
    )


def _words(column: Category) -> tuple[list[str], Floats, Floats]:
    """Every spelling that is known, the encoded row of each less that of an unknown one, and that of an unknown one."""
    units = np.eye(column.width)
    places = {label_of(label): index for index, label in enumerate(column.categories)}
    if clash := [label for label in column.categories if label.strip() in EMPTY]:
        raise ModelFileError(f"{column.name}: scikit-learn cannot tell the category {clash[0]!r} from an empty cell")

    def row(rule: str) -> Floats:
        if label_of(rule) in places:
            return np.asarray(units[places[label_of(rule)]])
        return np.asarray(units[-1] if rule == "indicator" else np.zeros(column.width))

    rows = {word: row(label) for label in column.categories for word in spellings(label)}
    if column.missing != "refuse":
        empty = [word for word in (*CSV.missing, *EMPTY) if label_of(word) not in places]
        rows |= {word: row(column.missing) for word in empty}
    elif column.other != "refuse":
        raise ModelFileError(
            f"{column.name} takes an unknown word and refuses an empty cell: scikit-learn's encoder cannot do both"
        )
    other = row(column.other)
    return sorted(rows), np.array([rows[word] - other for word in sorted(rows)]), other


# ------------------------------------------------------------ estimators


def _estimator(model: LoadedModel, layers: Sequence[Layer], activation: str) -> Any:
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.neural_network import MLPClassifier

    if len(layers) == 1:
        return LinearRegression() if model.schema.target.kind == "number" else LogisticRegression(max_iter=1)
    hidden = tuple(len(each.bias) for each in layers[:-1])
    return MLPClassifier(hidden_layer_sizes=hidden, activation=activation, max_iter=1)


def _made_up(model: LoadedModel, found: Portable) -> tuple[Any, Any]:
    """A few rows inside the schema, with every class: of nobody."""
    target = model.schema.target
    count = max(2, model.schema.outputs)
    answers = np.arange(count) * 1.0 if target.kind == "number" else np.resize(model.classes_, count)
    if isinstance(found.columns, Uniform):
        low, high = found.columns.low, found.columns.high
        return np.where(np.arange(count)[:, None] % 2, low, high) * np.ones(found.columns.count), answers
    import pandas

    cells = {each.name: _made_up_cells(each, count) for each in found.columns}
    return pandas.DataFrame(cells), answers


def _made_up_cells(column: Column, count: int) -> NDArray[Any]:
    if isinstance(column, Category):
        return np.full(count, column.categories[0], object)
    low, high = scale_of(column)[:2]
    values = np.where(np.arange(count) % 2, low, high)
    return values.astype("datetime64[D]").astype("datetime64[s]") if isinstance(column, Date) else values


def _set_numbers(before: Any, found: Portable) -> None:
    if isinstance(found.columns, Uniform):
        _set_scale(
            before, found, [[getattr(found.columns, name)] * found.columns.count for name in ("centre", "spread")]
        )
        return
    for name, columns in _groups(found).items():
        scales = [scale_of(each)[2:] for each in columns]
        _set_scale(before.named_transformers_[name], found, list(zip(*scales, strict=True)))


def _set_scale(steps: Any, found: Portable, scale: Sequence[Sequence[float]]) -> None:
    """Centre and spread of each column."""
    centre, spread = (np.array(each, np.float64) for each in scale)
    nought, ones = np.zeros(len(centre)), np.ones(len(centre))
    for name, mean, divisor in (
        ("scale", centre, spread),
        ("to steps", nought, ones / found.steps),
        ("from steps", nought, ones * found.steps),
    ):
        step = steps.named_steps[name]
        step.mean_, step.scale_, step.var_ = mean, divisor, divisor**2


def _set_parameters(model: LoadedModel, last: Any, layers: Sequence[Layer]) -> None:
    """In the order that scikit-learn gave the classes."""
    kind = model.schema.target.kind
    final = layers[-1]
    if kind == "classes":
        order = np.argsort(model.classes_)
        final = Layer(final.weights[:, order], final.bias[order])
    elif kind == "binary" and model.classes_[0] > model.classes_[1]:
        final = Layer(-final.weights, -final.bias)
    if len(layers) == 1:
        single = kind == "number"
        last.coef_ = final.weights[:, 0] if single else final.weights.T.copy()
        last.intercept_ = float(final.bias[0]) if single else final.bias
        return
    chosen = [*layers[:-1], final]
    last.coefs_, last.intercepts_ = [each.weights.copy() for each in chosen], [each.bias.copy() for each in chosen]
