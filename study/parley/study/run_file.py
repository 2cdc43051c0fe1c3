"""RUN.toml: data, model, algorithm, privacy and parties of a simulated run, checked before anything is read.

[data]
train = ["a9a.xz"]                 # one file, or one list per party under `parties`
test = ["a9a.t.xz"]                # public: evaluation by the coordinator
[schema]                           # parley.learning.schema, and what the files look like: parley.learning.holding
[model]
kind = "logistic"                  # logistic, softmax, linear, huber, smoothed-hinge, perceptron
[algorithm]
name = "auto"                      # and its parameters, output = { rule = "average" }, …
[privacy]
epsilon = 0.5
delta = 1e-5
accountant = "pld"
[federation]
parties = 10                       # a pooled file is split over so many
[noise]                            # optional; what each server adds of its own, parley.mpc.parts
security = "semi-honest"
own = 0.5
"""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.algorithms.algorithm import Algorithm, Setting, build
from parley.algorithms.regularisers import Regulariser
from parley.algorithms.schedules import Output
from parley.learning.holding import CSV, Layout, described
from parley.learning.models import Huber, Linear, Logistic, Model, Residual, Softmax, Squared
from parley.learning.perceptron import Perceptron
from parley.learning.proximal import SmoothedHinge
from parley.learning.schema import Schema
from parley.mpc.errors import MpcError
from parley.mpc.parts import JOINT, NoiseParts, parts_of, usual_own
from parley.research.central.method import CentralMethod, build_central
from parley.study.errors import RunFileError

MODELS = ("logistic", "softmax", "linear", "huber", "smoothed-hinge", "perceptron")
OPTIONS = {"huber": {"threshold"}, "smoothed-hinge": {"smoothness"}, "perceptron": {"hidden", "activation"}}


@dataclass(frozen=True)
class RunFile:
    """A checked run file; relative paths are from its folder."""

    train: list[list[Path]]
    """One list of files per data set: a single pooled one, or one per party."""
    test: list[Path]
    schema: Schema
    model: dict[str, Any]
    algorithm: dict[str, Any]
    epsilon: float
    delta: float
    accountant: str = "pld"
    parties: int = 1
    noise: bool = True
    regulariser: Regulariser = field(default_factory=Regulariser)
    layout: Layout = CSV
    """Of all files."""
    parts: NoiseParts = JOINT
    """Of the servers' noise: without own parts where a program says nothing, with the usual ones where a file does not.
    """

    def new_model(self) -> Model:
        return build_model(self.model, self.schema)

    def new_algorithm(self) -> Algorithm:
        return build_algorithm(self.algorithm, self.regulariser)

    def central_method(self) -> CentralMethod | None:
        """None where the algorithm is one that a federation can run."""
        found = build_central(self.algorithm)
        if found and self.regulariser.kind != "none":
            raise RunFileError("a central method has its own penalty, called strength: leave the regulariser out")
        return found


def read_run_file(path: Path) -> RunFile:
    try:
        body = tomllib.loads(path.read_text())
    except OSError as error:
        raise RunFileError(f"{path.name}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RunFileError(f"{path.name} is not TOML: {error}") from None
    _only(
        body, "the run file", {"data", "schema", "model", "algorithm", "privacy", "federation", "regulariser", "noise"}
    )
    data = _table(body, "data", {"train", "test", "parties"})
    privacy = _table(body, "privacy", {"epsilon", "delta", "accountant"})
    federation = _table(body, "federation", {"parties", "noise"}, optional=True)
    if ("train" in data) == ("parties" in data):
        raise RunFileError("[data] needs either train, one pooled data set, or parties, one list of files for each")
    folder = path.parent
    per_party = data["parties"] if "parties" in data else [data["train"]]
    parties = federation.get("parties", len(per_party))
    if len(per_party) > 1 and parties != len(per_party):
        raise RunFileError("[federation] parties contradicts the number of file lists in [data] parties: leave it out")
    if not isinstance(parties, int) or not 1 <= parties <= 1000:
        raise RunFileError(f"[federation] parties is {parties!r}: give a whole number from 1 to 1000")
    layout, schema = described(_table(body, "schema", None))
    run = RunFile(
        [_paths(folder, each) for each in per_party],
        _paths(folder, data.get("test", [])),
        schema,
        _table(body, "model", None),
        _table(body, "algorithm", None),
        _number(privacy, "epsilon"),
        _number(privacy, "delta"),
        privacy.get("accountant", "pld"),
        parties,
        federation.get("noise", True),
        _regulariser(_table(body, "regulariser", {"kind", "weight"}, optional=True)),
        layout,
        _parts(_table(body, "noise", {"security", "own"}, optional=True)),
    )
    run.new_model()
    if run.central_method() is None:
        run.new_algorithm()
    return run


def build_model(body: dict[str, Any], schema: Schema) -> Model:
    """A built-in model; nothing else is ever executed."""
    kind = body.get("kind")
    if kind not in MODELS:
        raise RunFileError(f"[model] kind is {kind!r}: use one of {', '.join(MODELS)}")
    _only(body, "[model]", {"kind"} | OPTIONS.get(kind, set()))
    target = schema.target.kind
    residual: Residual
    if kind in ("linear", "huber"):
        _matching(kind, target, "number")
        residual = Squared() if kind == "linear" else Huber(body.get("threshold", 1.0))
    elif kind == "smoothed-hinge":
        _matching(kind, target, "binary")
        # Without a smoothness the loss is quadratic over a margin of 1.
        residual = SmoothedHinge(body.get("smoothness", schema.feature_bound**2), schema.feature_bound)
    elif target == "classes":
        _matching(kind, "classes" if kind != "logistic" else "binary", "classes")
        residual = Softmax(schema.outputs)
    else:
        _matching(kind, target, "binary") if kind != "softmax" else _matching(kind, target, "classes")
        residual = Logistic()
    if kind == "perceptron":
        hidden = tuple(body.get("hidden", (32,)))
        # The perceptron has biases of its own.
        return Perceptron(schema.dimension, hidden, residual, body.get("activation", "relu"))
    return Linear(schema.dimension, residual)


def setting_of(units: int, model: Model, epsilon: float, delta: float, schema: Schema, kind: str) -> Setting:
    """The public facts that an algorithm may plan with."""
    return Setting(
        units, model.dimension, epsilon, delta, schema.feature_bound, kind, schema.dimension, schema.intercept
    )


def build_algorithm(body: dict[str, Any], regulariser: Regulariser) -> Algorithm:
    """By name, with the parameters of its dataclass."""
    parameters = dict(body)
    name = parameters.pop("name", None)
    if not isinstance(name, str):
        raise RunFileError('[algorithm] needs a name, such as "auto"')
    if build_central(body):
        raise RunFileError(
            f"{name} runs in `parley simulate` and `parley reproduce` only: no mechanism accounts for its noise"
        )
    if "output" in parameters:
        parameters["output"] = Output(**_table(parameters, "output", {"rule", "tail"}))
    return build(name, {**parameters, "regulariser": regulariser})


def _matching(model: str, target: str, needed: str) -> None:
    if target != needed:
        raise RunFileError(
            f"[model] {model} predicts a {needed} target and the schema's is {target}: change one of them"
        )


def _only(body: dict[str, Any], where: str, known: set[str]) -> None:
    for name in body:
        if name not in known:
            raise RunFileError(f"{where} has no field {name!r}: use {', '.join(sorted(known))}")


def _table(body: dict[str, Any], name: str, known: set[str] | None, optional: bool = False) -> dict[str, Any]:
    found = body.get(name, {} if optional else None)
    if not isinstance(found, dict):
        raise RunFileError(f"the run file needs a table [{name}]")
    if known is not None:
        _only(found, f"[{name}]", known)
    return found


def _number(body: dict[str, Any], name: str) -> float:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RunFileError(f"[privacy] {name} is {value!r}: give a number")
    return float(value)


def _paths(folder: Path, names: Any) -> list[Path]:
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise RunFileError("[data] files are given as lists of names")
    return [folder / each for each in names]


def _regulariser(body: dict[str, Any]) -> Regulariser:
    return Regulariser(body.get("kind", "none"), body.get("weight", 0.0))


def _parts(body: dict[str, Any]) -> NoiseParts:
    security = body.get("security", "semi-honest")
    own = body.get("own", usual_own(security))
    if isinstance(own, bool) or not isinstance(own, int | float):
        raise RunFileError(f"[noise] own is {own!r}: give a number")
    try:
        return parts_of(security, float(own))
    except MpcError as error:
        raise RunFileError(f"[noise] {error}") from None
