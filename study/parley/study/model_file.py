"""A model to ask: what a run's model file says, read and checked.

    from parley import study
    model = study.load("model.npz")
    model.predict("new-patients.csv")        # or a frame, dictionaries, an array of raw feature values

The file's form is in parley.learning.model_archive; whoever leads a run writes it (parley.coordinator.result).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.federation.fields import Plain
from parley.learning.card_page import page
from parley.learning.columns import Uniform
from parley.learning.errors import ModelFileError
from parley.learning.features import Extract
from parley.learning.holding import LAYOUT_FIELDS, layout_by_name
from parley.learning.metrics import Figure, metrics, softmax
from parley.learning.model_archive import read_archive, write_archive
from parley.learning.models import Model, sigmoid
from parley.learning.plain_page import Page
from parley.learning.readers import Data, read
from parley.learning.records import Records, encode, encode_features
from parley.learning.rows import DenseRows, Rows, SparseRows
from parley.learning.schema import Schema, schema_from_json
from parley.learning.transforms import named_code
from parley.models.extractor_spec import run_here
from parley.models.module_spec import is_module
from parley.models.registry import build_model
from parley.study.frames import data_of
from parley.study.opened import opened

Floats = NDArray[np.float64]
BLOCK = 8192


@dataclass(frozen=True)
class LoadedModel:
    """A model to ask. `predict` takes raw values: the schema that trained it encodes them.

    >>> study.read("study.toml").simulate(seeds=1).save("model.npz")
    >>> model = study.load("model.npz")
    >>> model.predict_proba("test.csv").shape
    (230, 2)
    """

    theta: Floats
    description: Mapping[str, Any]
    card: Mapping[str, Any]
    allow: tuple[str, ...] = ()
    """Modules whose code may run here, as `load` was given them."""

    @cached_property
    def schema(self) -> Schema:
        return schema_from_json(columns_of(self.description["schema"]))

    @cached_property
    def model(self) -> Model:
        options = {name: value for name, value in self.description["model"].items() if name != "dimension"}
        built = self._module(options) if is_module(options.get("kind")) else build_model(options, self.schema)
        if built.dimension != len(self.theta):
            raise ModelFileError(
                f"theta has {len(self.theta):,} numbers and a model of these columns {built.dimension:,}: the file was "
                "altered"
            )
        return built

    def _module(self, body: dict[str, Any]) -> Model:
        """The file's own module, of the very bytes that its run had; nobody's code runs that was not allowed."""
        if body["kind"] not in self.allow:
            raise ModelFileError(
                f"the model is the module {body['kind']}, whose code would run here: where you trust it, give "
                f"study.load(PATH, allow={body['kind']!r}), or --allow {body['kind']} at the command line"
            )
        if not body.get("digest"):
            raise ModelFileError("the model names a module without the digest of its code: the file was altered")
        return opened(Plain.of(body), self.schema)

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels in the order of `predict_proba`'s columns: the negative one first. A model of a number has none."""
        target = self.schema.target
        if target.kind == "number":
            raise ModelFileError("a model of a number has no classes: ask it to predict")
        return np.array(target.classes if target.kind == "classes" else (target.negative[0], target.positive[0]))

    def predict(self, rows: Any) -> NDArray[Any]:
        """Labels as the data has them, or numbers in its unit."""
        return self.decided(self.outputs(rows))

    def predict_proba(self, rows: Any) -> Floats:
        """Of each class, float64[rows, classes], in the order of `classes_`."""
        self.classes_  # noqa: B018  a model of a number has none, and says so
        return self.chances(self.outputs(rows))

    def decision_function(self, rows: Any) -> Floats:
        """Raw scores: float64[rows] of two classes, above 0 for the positive one; float64[rows, classes] of more."""
        self.classes_  # noqa: B018
        scores = self.outputs(rows)
        return scores[:, 0] if self.schema.target.kind == "binary" else scores

    def figures(self, data: Any) -> dict[str, Figure]:
        """How good it is on PUBLIC rows with their labels, each figure with its 95 % interval (learning.metrics)."""
        return metrics(self.model, self.records_of(data), self.theta, self.schema.target)

    def encoded(self, rows: Any) -> Floats:
        """Features as the model sees them, float64[rows, columns], the intercept's last: for use elsewhere."""
        found = self.rows_of(rows)
        return np.asarray(found.take(np.arange(len(found))).dense() * 2.0**-found.bits)

    def save(self, path: Path | str) -> None:
        """The same file and card elsewhere."""
        write_archive(Path(path), self.theta, self.description, self.card)

    def to_sklearn(self) -> Any:
        """A fitted scikit-learn Pipeline with the same predictions, which needs no parley: see study.to_sklearn."""
        from parley.study.to_sklearn import to_sklearn

        try:
            return to_sklearn(self)
        except ModuleNotFoundError as error:
            raise ModelFileError(f"{error.name} is not installed here: pip install scikit-learn pandas") from None

    def to_onnx(self) -> bytes:
        """An ONNX file: raw columns in, label and probabilities out; see study.to_onnx."""
        from parley.study.to_onnx import to_onnx

        return to_onnx(self)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers that ten lines of any language can compute with: see study.portable."""
        from parley.study.portable import as_json

        return as_json(self)

    def to_torch(self) -> dict[str, Any]:
        """What the module's own `load_state_dict` takes: trained values and its constants; plain tensors."""
        kind = self.description["model"].get("kind")
        if not is_module(kind):
            raise ModelFileError(f"the model is {kind}, which is no PyTorch module: export it as .onnx or .json")
        found: dict[str, Any] = self.model.state_dict(self.theta)  # type: ignore[attr-defined]  # a module has it
        return found

    def card_page(self) -> Page:
        """The card for people: `.html()` or `.markdown()`."""
        return page(len(self.theta), self.description, self.card)

    def rows_of(self, rows: Any, adjusted: dict[str, int] | None = None) -> Rows:
        """Encoded; `adjusted` counts by column what was cut to the bounds."""
        counted = {} if adjusted is None else adjusted
        return encode_features(given(rows, self.schema), self.schema, counted, extract=self._extract)

    def records_of(self, data: Any) -> Records:
        """Encoded, with their labels."""
        return encode(given(data, self.schema), self.schema, extract=self._extract)

    @cached_property
    def _extract(self) -> Extract:
        """Runs the code between columns and model: what was allowed, of the very bytes that its run had."""
        for name, digest in named_code(self.schema.transform).items():
            if name not in self.allow:
                raise ModelFileError(
                    f"the model's features are made by {name}, whose code would run here: where you trust it, give "
                    f"study.load(PATH, allow={name!r}), or parley predict --allow {name}"
                )
            if not digest:
                raise ModelFileError("the model names code without its digest: the file was altered")
        return run_here(self.allow)

    def outputs(self, rows: Any) -> Floats:
        """What the model computes, float64[rows, outputs], of rows as a user or as `rows_of` gives them."""
        found = rows if isinstance(rows, DenseRows | SparseRows) else self.rows_of(rows)
        blocks = [np.arange(start, min(start + BLOCK, len(found))) for start in range(0, len(found), BLOCK)]
        parts = [self.model.scores(found.take(block), self.theta) for block in blocks]
        return np.concatenate(parts) if parts else np.zeros((0, self.schema.outputs))

    def decided(self, scores: Floats) -> NDArray[Any]:
        """Labels or numbers, of `outputs`."""
        target = self.schema.target
        if target.kind == "number":
            return np.asarray(scores[:, 0] * target.spread + target.centre)
        best = scores.argmax(axis=1) if target.kind == "classes" else (scores[:, 0] > 0).astype(np.int64)
        return np.asarray(self.classes_[best])

    def chances(self, scores: Floats) -> Floats:
        """Probabilities of each class, of `outputs`."""
        if self.schema.target.kind == "classes":
            return softmax(scores)
        return np.stack([sigmoid(-scores[:, 0]), sigmoid(scores[:, 0])], axis=1)


def load(path: Path | str, *, allow: str | Sequence[str] = ()) -> LoadedModel:
    """The file, checked: plain arrays, digests that agree, and a card.json beside it, if any, that says the same.

    A model that is a PyTorch module of somebody's package, or whose features one makes, can be asked only where `allow`
    names it, such as "torch:hospital_models.nets:build": its code runs here then, from the very bytes that the file has
    the digest of.

    >>> study.read("study.toml").simulate(seeds=1).save("model.npz")
    >>> study.load("model.npz").card["accountant"]
    'pld'
    """
    theta, description, card = read_archive(Path(path))
    name = Path(path).name
    if not all(isinstance(description.get(each), dict) for each in ("model", "schema")):
        raise ModelFileError(f"{name} does not say what the model and its columns are: the file was altered")
    if not np.isfinite(theta).all():
        raise ModelFileError(f"{name}: theta holds what is no finite number: the run that wrote it has failed")
    return LoadedModel(theta, description, card, (allow,) if isinstance(allow, str) else tuple(allow))


def columns_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without what a file looked like, which model files of earlier versions say too."""
    return {name: value for name, value in body.items() if name not in LAYOUT_FIELDS}


def given(rows: Any, schema: Schema) -> Data:
    """Rows of a file, or of what a program holds."""
    if isinstance(rows, str | Path):
        path = Path(rows)
        return read([path], layout_by_name(path), schema.target.name)
    if isinstance(schema.features, Uniform) and np.ndim(rows) == 1 and not hasattr(rows, "columns"):
        rows = np.atleast_2d(np.asarray(rows, np.float64))
    return data_of(rows, schema)
