"""Which models there are: the one place that builds what a manifest, a study or a model file names.

An institution's own module is built by its name only: `open_model` is who imports and runs it, in this process.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from parley.federation.errors import ManifestError
from parley.federation.extras import install
from parley.federation.fields import built
from parley.federation.manifest import Manifest
from parley.learning.errors import ModelError
from parley.learning.models import Huber, Linear, Logistic, Model, Residual, Softmax, Squared
from parley.learning.perceptron import Perceptron
from parley.learning.proximal import SmoothedHinge
from parley.learning.schema import Schema, schema_from_json
from parley.models.module_spec import ModuleSpec, is_module
from parley.models.named import NamedModule

if TYPE_CHECKING:
    from parley.models.module import TorchModel

MODELS = ("logistic", "softmax", "linear", "huber", "smoothed-hinge", "perceptron")
OPTIONS = {"huber": {"threshold"}, "smoothed-hinge": {"smoothness"}, "perceptron": {"hidden", "activation"}}


def build_model(body: Mapping[str, Any], schema: Schema, *, dimension: int | None = None) -> Model:
    """A built-in model, or a module by its name, of the manifest's dimension; nobody's code is imported or executed."""
    kind = body.get("kind")
    if is_module(kind):
        return NamedModule(ModuleSpec.of(body, schema), dimension)
    if kind not in MODELS:
        raise ModelError(f"[model] kind is {kind!r}: use one of {', '.join(MODELS)}, or torch:package.module:function")
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


def open_model(body: Mapping[str, Any], schema: Schema, *, device: str = "cpu", threads: int = 1) -> Model:
    """The model, ready to be asked. A module's code is imported and runs HERE: for a person's own process only."""
    if not is_module(body.get("kind")):
        return build_model(body, schema)
    return open_module(ModuleSpec.of(body, schema), schema.outputs, device=device, threads=threads)


def open_module(spec: ModuleSpec, outputs: int, *, device: str = "cpu", threads: int = 1) -> "TorchModel":
    """A module that was named, imported and checked in this process."""
    try:
        from parley.models.module import TorchModel
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModelError(f"{spec.kind} needs PyTorch: {install('torch')}") from None
    return TorchModel.open(spec, outputs, device=device, threads=threads)


def model_of(manifest: Manifest) -> tuple[Schema, Model]:
    """What a run names, of this installation's models or a module by its name; a ManifestError says what does not fit.

    Nothing of a module is imported: its dimension, digest and probe are the manifest's own.
    """
    schema = built("schema", lambda: schema_from_json(manifest.schema.body))
    body = {"kind": manifest.model.kind, **manifest.model.options.body}
    model = built("model", lambda: build_model(body, schema, dimension=manifest.model.dimension))
    if isinstance(model, NamedModule):
        for name, value in (("digest", model.spec.digest), ("probe", model.spec.probe)):
            if not value:
                raise ManifestError(f"model.{name}", "is missing: write what `parley model show` prints")
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
