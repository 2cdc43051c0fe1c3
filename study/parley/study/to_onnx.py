"""A model as an ONNX file: raw columns in, probabilities out, for whatever runs ONNX.

    Path("model.onnx").write_bytes(study.load("model.npz").to_onnx())

One input for each column by its name, [rows, 1]: numbers as double, dates as days since 1970 (double), words as text.
A model of many columns under one bound has one input, `features`. Outputs are `label` and `probabilities` (in the order
of `classes_`), or `prediction`. NaN and the empty text are empty cells. ONNX cannot refuse a row: what the schema
refuses comes out as NaN, with the label of the first class. Arithmetic is in double, so figures are the model file's to
rounding. Needs the extra `onnx`.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.checks import label_of
from parley.learning.columns import Category, Date, Number, Uniform
from parley.learning.errors import ModelFileError
from parley.learning.holding import CSV
from parley.study.model_file import LoadedModel
from parley.study.portable import Portable, portable, scale_of, spellings

Floats = NDArray[np.float64]
ANSWERS = ("label", "probabilities", "prediction")
OWN = "parley/"
"""Before the names of what is inside, so that no column's name is one of them."""
OPSET, WORDS_OPSET, IR = 17, 3, 8
"""Of 2022: what runs ONNX today reads these."""


def to_onnx(model: LoadedModel) -> bytes:
    """The file's content; the card is in its metadata, as `card`."""
    import onnx

    graph = Graph()
    found = portable(model)
    encoded = _uniform(graph, found, found.columns) if isinstance(found.columns, Uniform) else _named(graph, found)
    _answers(graph, model, _layers(graph, found, encoded))
    made = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "model", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", WORDS_OPSET)],
        ir_version=IR,
        producer_name="parley",
        doc_string=str(model.card.get("statement", "")),
    )
    card = made.metadata_props.add()
    card.key, card.value = "card", json.dumps(dict(model.card), ensure_ascii=False, sort_keys=True)
    onnx.checker.check_model(made, full_check=True)
    return bytes(made.SerializeToString(deterministic=True))


class Graph:
    """Nodes as they are added, each with one output whose name is returned."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def add(self, kind: str, *inputs: str, domain: str = "", out: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = out or f"{OWN}{kind} {len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def constant(self, values: Any) -> str:
        from onnx import TensorProto, helper, numpy_helper

        name, array = f"{OWN}constant {len(self.constants)}", np.asarray(values)
        if array.dtype.kind == "U":
            words: Any = [str(each).encode() for each in array.ravel()]
            self.constants.append(helper.make_tensor(name, TensorProto.STRING, array.shape, words))
        else:
            self.constants.append(numpy_helper.from_array(array, name))
        return name

    def given(self, name: str, kind: str, width: int) -> str:
        self.inputs.append(_described(name, kind, width))
        return name

    def gives(self, name: str, kind: str, *width: int) -> None:
        self.outputs.append(_described(name, kind, *width))


def _described(name: str, kind: str, *width: int) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, getattr(TensorProto, kind), ["rows", *width])


# ------------------------------------------------------------ columns


def _uniform(graph: Graph, found: Portable, columns: Uniform) -> str:
    whole = graph.given("features", "DOUBLE", columns.count)
    ends = [np.full(1, getattr(columns, name)) for name in ("low", "high", "centre", "spread")]
    return _rounded(graph, found, whole, *ends)


def _named(graph: Graph, found: Portable) -> str:
    parts = [
        _category(graph, each) if isinstance(each, Category) else _number(graph, found, each) for each in found.named
    ]
    return graph.add("Concat", *parts, axis=1)


def _free(name: str) -> str:
    if name in ANSWERS or name.startswith(OWN):
        raise ModelFileError(f"{name}: an ONNX file has something of that name: ask the model file itself")
    return name


def _number(graph: Graph, found: Portable, column: Number | Date) -> str:
    given = graph.given(_free(column.name), "DOUBLE", 1)
    ends = [np.full(1, each) for each in scale_of(column)]
    again = column.ends if isinstance(column, Number) and column.transform == "log1p" else None
    encoded = _rounded(graph, found, given, *ends, logarithm=again)
    if column.missing == "refuse":
        return encoded  # and what is empty stays NaN
    empty = graph.add("IsNaN", given)
    filled = graph.add("Where", empty, graph.constant(np.zeros(1)), encoded)
    if not column.indicated:
        return filled
    mark = graph.add("Where", empty, graph.constant(np.ones(1)), graph.constant(np.zeros(1)))
    return graph.add("Concat", filled, mark, axis=1)


def _rounded(
    graph: Graph, found: Portable, values: str, *ends: Floats, logarithm: tuple[float, float] | None = None
) -> str:
    """Cut to the bounds, scaled, and rounded as the lattice has it: half to even."""
    low, high, centre, spread = (graph.constant(each) for each in ends)
    cut = graph.add("Min", graph.add("Max", values, low), high)
    if logarithm:
        grown = graph.add("Log", graph.add("Add", cut, graph.constant(np.ones(1))))
        least, most = (graph.constant(np.full(1, each)) for each in logarithm)
        cut = graph.add("Min", graph.add("Max", grown, least), most)
    steps = graph.constant(np.full(1, found.steps))
    scaled = graph.add("Div", graph.add("Sub", cut, centre), spread)
    encoded = graph.add("Div", graph.add("Round", graph.add("Mul", scaled, steps)), steps)
    # Max and Min may drop a NaN, as IEEE's older rule has it.
    return graph.add("Where", graph.add("IsNaN", values), graph.constant(np.full(1, np.nan)), encoded)


def _category(graph: Graph, column: Category) -> str:
    """Each word is looked up in a table of encoded rows; the last row is of unknown ones."""
    units = np.eye(column.width)
    places = {label_of(label): index for index, label in enumerate(column.categories)}

    def row(rule: str) -> Floats:
        if label_of(rule) in places:
            return np.asarray(units[places[label_of(rule)]])
        if rule == "indicator":
            return np.asarray(units[-1])
        return np.full(column.width, np.nan if rule == "refuse" else 0.0)

    rows = {word: row(label) for label in column.categories for word in spellings(label)}
    rows |= {word: row(column.missing) for word in CSV.missing if label_of(word) not in places}
    table = graph.constant(np.array([*rows.values(), row(column.other)]))
    given = graph.given(_free(column.name), "STRING", 1)
    flat = graph.add("Reshape", given, graph.constant(np.array([-1], np.int64)))
    place = graph.add(
        "LabelEncoder",
        flat,
        domain="ai.onnx.ml",
        keys_strings=list(rows),
        values_int64s=list(range(len(rows))),
        default_int64=len(rows),
    )
    return graph.add("Gather", table, place, axis=0)


# ------------------------------------------------------------ layers and answers


def _layers(graph: Graph, found: Portable, values: str) -> str:
    for index, layer in enumerate(found.layers):
        if index:
            values = graph.add("Tanh" if found.activation == "tanh" else "Relu", values)
        product = graph.add("MatMul", values, graph.constant(layer.weights))
        values = graph.add("Add", product, graph.constant(layer.bias))
    return values


def _answers(graph: Graph, model: LoadedModel, scores: str) -> None:
    kind = model.schema.target.kind
    if kind == "number":
        graph.add("Identity", scores, out="prediction")
        graph.gives("prediction", "DOUBLE", 1)
        return
    if kind == "binary":
        both = graph.add("Concat", graph.add("Neg", scores), scores, axis=1)
        graph.add("Sigmoid", both, out="probabilities")
    else:
        both = scores
        graph.add("Softmax", both, out="probabilities", axis=1)
    best = graph.add("ArgMax", both, axis=1, keepdims=0)
    graph.add("Gather", graph.constant(model.classes_.astype(np.str_)), best, out="label", axis=0)
    graph.gives("label", "STRING")
    graph.gives("probabilities", "DOUBLE", len(model.classes_))
