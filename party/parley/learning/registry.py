"""Which models there are: the one place that builds what a manifest, a study or a model file names."""

from typing import Any

from parley.federation.errors import ManifestError
from parley.federation.fields import built
from parley.federation.manifest import Manifest
from parley.learning.errors import ModelError
from parley.learning.models import Huber, Linear, Logistic, Model, Residual, Softmax, Squared
from parley.learning.perceptron import Perceptron
from parley.learning.proximal import SmoothedHinge
from parley.learning.schema import Schema, schema_from_json

MODELS = ("logistic", "softmax", "linear", "huber", "smoothed-hinge", "perceptron")
OPTIONS = {"huber": {"threshold"}, "smoothed-hinge": {"smoothness"}, "perceptron": {"hidden", "activation"}}


def build_model(body: dict[str, Any], schema: Schema) -> Model:
    """A built-in model; nothing else is ever executed."""
    kind = body.get("kind")
    if kind not in MODELS:
        raise ModelError(f"[model] kind is {kind!r}: use one of {', '.join(MODELS)}")
    known = {"kind"} | OPTIONS.get(kind, set())
    for name in body:
        if name not in known:
            raise ModelError(f"[model] has no field {name!r}: use {', '.join(sorted(known))}")
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
        _matching(kind, target, "binary" if kind == "logistic" else "classes")
        residual = Softmax(schema.outputs)
    else:
        _matching(kind, target, "binary") if kind != "softmax" else _matching(kind, target, "classes")
        residual = Logistic()
    if kind == "perceptron":
        hidden = body.get("hidden", (32,))
        if not isinstance(hidden, list | tuple):
            raise ModelError(f"[model] hidden is {hidden!r}: give a list of widths, such as [32]")
        # The perceptron has biases of its own.
        return Perceptron(schema.dimension, tuple(hidden), residual, body.get("activation", "relu"))
    return Linear(schema.dimension, residual)


def model_of(manifest: Manifest) -> tuple[Schema, Model]:
    """What this installation has built in for a run; a ManifestError names what it does not know, or does not fit."""
    schema = built("schema", lambda: schema_from_json(manifest.schema.body))
    body = {"kind": manifest.model.kind, **manifest.model.options.body}
    model = built("model", lambda: build_model(body, schema))
    if model.dimension != manifest.model.dimension:
        raise ManifestError(
            "model.dimension",
            f"is {manifest.model.dimension:,} and a {manifest.model.kind} model on this schema has "
            f"{model.dimension:,} parameters: write that",
        )
    return schema, model


def _matching(model: str, target: str, needed: str) -> None:
    if target != needed:
        raise ModelError(f"[model] {model} predicts a {needed} target and the schema's is {target}: change one of them")
