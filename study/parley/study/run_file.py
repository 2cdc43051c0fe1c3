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

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.algorithms.algorithm import Algorithm
from parley.algorithms.registry import build_algorithm
from parley.algorithms.regularisers import Regulariser
from parley.federation.files import toml_file
from parley.learning.holding import CSV, Layout, described
from parley.learning.models import Model
from parley.learning.registry import build_model
from parley.learning.schema import Schema
from parley.mpc.errors import MpcError
from parley.mpc.parts import JOINT, NoiseParts, parts_of, usual_own
from parley.study.errors import RunFileError


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


def read_run_file(path: Path) -> RunFile:
    """Checked in all, with an algorithm that a federation can run."""
    run = parse_run_file(path)
    run.new_algorithm()
    return run


def parse_run_file(path: Path) -> RunFile:
    """Checked but for the algorithm, which may be one that only research knows."""
    body = toml_file(path, lambda what: RunFileError(f"{path.name} {what}"))
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
    return run


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
