"""What a manifest, a study or a model file names, built: each model for its target and no other, each option known."""

from typing import Any

import pytest

from parley.federation.errors import ManifestError
from parley.learning.errors import ModelError, SchemaError
from parley.learning.models import Huber, Linear, Logistic, Softmax, Squared
from parley.learning.perceptron import Perceptron
from parley.learning.proximal import SmoothedHinge
from parley.learning.schema import Schema, schema_from_json
from parley.models.registry import MODELS, build_model, model_of
from tests.support.documents import manifest

TARGETS: dict[str, dict[str, Any]] = {
    "binary": {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]},
    "classes": {"name": "y", "kind": "classes", "classes": ["a", "b", "c"]},
    "number": {"name": "y", "kind": "number", "low": 0.0, "high": 1.0},
}
FITS = {
    "logistic": {"binary"},
    "softmax": {"classes"},
    "linear": {"number"},
    "huber": {"number"},
    "smoothed-hinge": {"binary"},
    "perceptron": {"binary", "classes"},
}


def schema(target: str) -> Schema:
    features = [{"name": "age", "low": 20.0, "high": 90.0}, {"name": "pulse", "low": 30.0, "high": 220.0}]
    return schema_from_json({"features": features, "target": TARGETS[target], "intercept": True})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_built_for_its_own_targets_only(kind: str, target: str) -> None:
    if target in FITS[kind]:
        assert build_model({"kind": kind}, schema(target)).dimension > 0
    else:
        with pytest.raises(ModelError, match=f"{kind} predicts a .* target and the schema's is {target}"):
            build_model({"kind": kind}, schema(target))


@pytest.mark.parametrize(
    ("body", "target", "residual", "dimension"),
    [
        ({"kind": "logistic"}, "binary", Logistic, 3),
        ({"kind": "softmax"}, "classes", Softmax, 9),
        ({"kind": "linear"}, "number", Squared, 3),
        ({"kind": "huber", "threshold": 0.5}, "number", Huber, 3),
        ({"kind": "smoothed-hinge"}, "binary", SmoothedHinge, 3),
    ],
)
def test_each_kind_has_its_own_loss(body: dict[str, Any], target: str, residual: type, dimension: int) -> None:
    model = build_model(body, schema(target))
    assert isinstance(model, Linear)
    assert isinstance(model.residual, residual)
    assert model.dimension == dimension


def test_options_reach_the_model() -> None:
    huber = build_model({"kind": "huber", "threshold": 0.5}, schema("number"))
    assert isinstance(huber, Linear)
    assert huber.residual == Huber(0.5)
    made = build_model({"kind": "perceptron", "hidden": [4, 2], "activation": "tanh"}, schema("binary"))
    assert isinstance(made, Perceptron)
    assert made.dimension == (3 + 1) * 4 + (4 + 1) * 2 + (2 + 1)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "kind is None: use one of logistic"),
        ({"kind": "resnet"}, "kind is 'resnet'"),
        ({"kind": ["logistic"]}, "kind is"),
        ({"kind": "logistic", "threshold": 1.0}, "no field 'threshold'"),
        ({"kind": "perceptron", "hiden": [4]}, "no field 'hiden': use activation, hidden, kind"),
    ],
)
def test_what_is_not_built_in_is_refused(body: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        build_model(body, schema("binary"))


@pytest.mark.parametrize("hidden", [3, "4", [], ["4"], [0], [4.0], [True], [4, 4, 4, 4]])
def test_the_widths_of_a_perceptron_are_a_list_of_whole_numbers(hidden: Any) -> None:
    """A 4.0 that is taken for 4 fails in the first round, when budgets are charged."""
    with pytest.raises((ModelError, SchemaError), match="hidden"):
        build_model({"kind": "perceptron", "hidden": hidden}, schema("binary"))
    for dimension in (6, 21):
        with pytest.raises(ManifestError, match=r"model: .*hidden"):
            model_of(manifest(model={"kind": "perceptron", "dimension": dimension, "hidden": hidden}))


@pytest.mark.parametrize("threshold", [0.0, -1.0, float("nan"), float("inf")])
def test_a_senseless_threshold_is_refused(threshold: float) -> None:
    with pytest.raises(SchemaError, match="Huber threshold"):
        build_model({"kind": "huber", "threshold": threshold}, schema("number"))


@pytest.mark.parametrize(
    "option", [{"kind": "perceptron", "activation": 3}, {"kind": "smoothed-hinge", "smoothness": "1"}]
)
def test_an_option_of_another_type_is_named_in_a_manifest(option: dict[str, Any]) -> None:
    with pytest.raises(ManifestError, match=r"^model: "):
        model_of(manifest(model={**option, "dimension": 3}))


def test_a_manifest_names_a_model_that_fits_its_schema_and_its_dimension() -> None:
    found, model = model_of(manifest())
    assert (found.dimension, model.dimension) == (3, 3)
    with pytest.raises(ManifestError, match=r"model\.dimension: is 4 and a logistic model on this schema has 3"):
        model_of(manifest(**{"model.dimension": 4}))
    with pytest.raises(ManifestError, match=r"model: .* no field 'depth'"):
        model_of(manifest(model={"kind": "logistic", "dimension": 3, "depth": 2}))
    with pytest.raises(ManifestError, match=r"model: .*softmax predicts a classes target"):
        model_of(manifest(**{"model.kind": "softmax"}))
    with pytest.raises(ManifestError, match="schema: "):
        model_of(manifest(**{"schema.features.0.high": 10.0}))
