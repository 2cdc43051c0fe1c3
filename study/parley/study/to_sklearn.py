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

from parley.learning.errors import ModelFileError
from parley.learning.holding import CSV
from parley.learning.schema import Category, Number, Uniform, label_of
from parley.study.model_file import LoadedModel
from parley.study.portable import Layer, Portable, portable, spellings

Floats = NDArray[np.float64]
EMPTY = ("nan", "None", "<NA>", "NaT")
"""How NumPy spells an empty cell of a frame as text."""


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
        return _number_steps(found, False), np.eye(found.columns.count), np.zeros(found.columns.count)
    starts = np.cumsum([0, *(each.width for each in found.columns)])
    parts, turns, constant = [], [], np.zeros(int(starts[-1]))
    for filled in (False, True):
        places = [index for index, each in enumerate(found.columns) if _is_number(each, filled)]
        if places:
            names = [found.columns[index].name for index in places]
            parts.append((_group(filled), _number_steps(found, filled), names))
            turns.append(np.eye(int(starts[-1]))[starts[places]])
    for index, each in enumerate(found.columns):
        if isinstance(each, Category):
            words, turn, other = _words(each)
            parts.append((f"category {index}", _category_steps(each, words), [each.name]))
            whole = np.zeros((len(words), int(starts[-1])))
            whole[:, starts[index] : starts[index + 1]] = turn
            turns.append(whole)
            constant[starts[index] : starts[index + 1]] = other
    return ColumnTransformer(parts, sparse_threshold=0.0), np.concatenate(turns), constant


def _is_number(column: Number | Category, filled: bool) -> bool:
    return isinstance(column, Number) and (column.missing != "refuse") == filled


def _group(filled: bool) -> str:
    return "numbers that may be empty" if filled else "numbers"


def _number_steps(found: Portable, filled: bool) -> Any:
    """Cut, scaled, rounded, filled. What is empty and may not be stays NaN, which the estimator refuses."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    columns = _numbers(found, filled)
    low, high = (np.array([getattr(each, name) for each in columns]) for name in ("low", "high"))
    steps = [
        ("as numbers", FunctionTransformer(np.asarray, kw_args={"dtype": np.float64})),
        ("cut", FunctionTransformer(np.clip, kw_args={"a_min": low, "a_max": high})),
        ("scale", StandardScaler()),
        ("to steps", StandardScaler()),
        ("round", FunctionTransformer(np.rint)),
        ("from steps", StandardScaler()),
    ]
    if filled:
        steps.append(("fill", SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)))
    return Pipeline(steps)


def _numbers(found: Portable, filled: bool) -> Sequence[Number | Uniform]:
    if isinstance(found.columns, Uniform):
        return [found.columns]
    return [each for each in found.columns if isinstance(each, Number) and _is_number(each, filled)]


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
        return units[places[label_of(rule)]] if label_of(rule) in places else np.zeros(column.width)

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

    cells = {
        each.name: np.where(np.arange(count) % 2, each.low, each.high)
        if isinstance(each, Number)
        else np.full(count, each.categories[0], object)
        for each in found.columns
    }
    return pandas.DataFrame(cells), answers


def _set_numbers(before: Any, found: Portable) -> None:
    for filled in (False, True):
        columns = _numbers(found, filled)
        if not columns or (filled and isinstance(found.columns, Uniform)):
            continue
        steps = before if isinstance(found.columns, Uniform) else before.named_transformers_[_group(filled)]
        width = found.columns.count if isinstance(found.columns, Uniform) else len(columns)
        centre, spread = (
            np.resize(np.array([getattr(each, name) for each in columns]), width) for name in ("centre", "spread")
        )
        for name, mean, scale in (
            ("scale", centre, spread),
            ("to steps", np.zeros(width), np.full(width, 1 / found.steps)),
            ("from steps", np.zeros(width), np.full(width, found.steps)),
        ):
            step = steps.named_steps[name]
            step.mean_, step.scale_, step.var_ = mean, scale, scale**2


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
