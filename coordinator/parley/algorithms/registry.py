"""What a manifest or a study names, built: the one place for algorithms, and the one check of what a manifest names.

The model comes from its own registry (parley.models.registry). Both are needed to say whether a manifest fits
together, which `federation` cannot ask, for it knows neither. This module alone of its room knows models: an algorithm
knows public facts and released values, and how many numbers a model has.
"""

import importlib
import math
import pkgutil
from dataclasses import dataclass, fields
from typing import Any

import parley.algorithms
from parley.algorithms.algorithm import REGISTRY, Algorithm, Ask, Plan, Setting
from parley.algorithms.errors import AlgorithmError
from parley.algorithms.regularisers import Regulariser
from parley.algorithms.schedules import Output
from parley.federation.errors import ManifestError
from parley.federation.fields import built
from parley.federation.kinds import CENTRAL
from parley.federation.manifest import Manifest, longest_answer
from parley.federation.question import answer_length
from parley.learning.contributor import Query
from parley.learning.models import Huber, Model
from parley.learning.schema import Schema
from parley.models.registry import model_of


def known() -> dict[str, type[Algorithm]]:
    """Every algorithm there is a file for."""
    for module in pkgutil.iter_modules(parley.algorithms.__path__):
        importlib.import_module(f"parley.algorithms.{module.name}")
    return REGISTRY


def build(name: str, parameters: dict[str, Any]) -> Algorithm:
    """Unknown names and unknown parameters are refused."""
    kinds = known()
    if name in CENTRAL:
        raise AlgorithmError(
            f"{name} runs in `parley simulate` and `parley reproduce` only: no mechanism accounts for its noise"
        )
    if name not in kinds:
        raise AlgorithmError(f"no algorithm {name!r}: use one of {', '.join(sorted(kinds))}")
    allowed = {each.name for each in fields(kinds[name])}
    for parameter in parameters:
        if parameter not in allowed:
            raise AlgorithmError(f"{name} has no parameter {parameter!r}: use {', '.join(sorted(allowed))}")
    try:
        return kinds[name](**parameters)
    except TypeError as error:
        raise AlgorithmError(f"{name}: {error}") from None


def build_algorithm(body: dict[str, Any], regulariser: Regulariser) -> Algorithm:
    """From a table [algorithm]: by name, with the parameters of its dataclass."""
    parameters = dict(body)
    name = parameters.pop("name", None)
    if not isinstance(name, str):
        raise AlgorithmError('[algorithm] needs a name, such as "auto"')
    if "output" in parameters:
        parameters["output"] = _output(parameters["output"])
    return build(name, {**parameters, "regulariser": regulariser})


def setting_of(units: int, model: Model, epsilon: float, delta: float, schema: Schema, kind: str) -> Setting:
    """The public facts that an algorithm may plan with."""
    target, residual = schema.target, getattr(model, "residual", None)
    ends = [abs(end - target.centre) / target.spread for end in (target.low, target.high)]
    return Setting(
        records=units,
        dimension=model.dimension,
        epsilon=epsilon,
        delta=delta,
        feature_bound=schema.feature_bound,
        model=kind,
        columns=schema.dimension,
        intercept=schema.intercept,
        normalised=bool(schema.transform),
        target_bound=max(ends) if target.kind == "number" else 1.0,
        largest_residual=residual.threshold if isinstance(residual, Huber) else math.inf,
    )


def query_of(round_index: int, ask: Ask) -> Query:
    """An algorithm's question as a party understands it."""
    return Query(round_index, ask.points, ask.kind, ask.scale, ask.local)


@dataclass(frozen=True)
class Named:
    """What a manifest names, as this installation has it."""

    schema: Schema
    model: Model
    algorithm: Algorithm
    """It has planned, and not begun."""
    plan: Plan


def named_by(manifest: Manifest) -> Named:
    """Built and checked: a ManifestError names the first field that this installation cannot follow.

    So a mistake shows before anybody is asked to approve, and again where a run is started.
    """
    schema, model = model_of(manifest)
    regulariser = built("regulariser", lambda: Regulariser(**manifest.regulariser.body))
    parameters = {"name": manifest.algorithm.name, **manifest.algorithm.parameters.body}
    algorithm = built("algorithm", lambda: build_algorithm(parameters, regulariser))
    _require_recorded(manifest, algorithm)
    mechanism, guarantee = manifest.mechanism, manifest.guarantee
    units = sum(mechanism.sampler(party, 0).units for party in manifest.parties)
    setting = setting_of(units, model, guarantee.epsilon, guarantee.delta, schema, manifest.model.kind)
    plan = built("algorithm", lambda: algorithm.plan(setting))
    _require_equal(manifest, plan)
    check_answers(manifest.algorithm.name, algorithm, model.dimension)
    return Named(schema, model, algorithm, plan)


def check_answers(name: str, algorithm: Algorithm, dimension: int) -> None:
    """Once it has planned: so many numbers per round the servers have noise for, and certify."""
    for kind, points in algorithm.questions().items():
        length = answer_length(kind, points, dimension)
        if length > longest_answer(dimension):
            raise ManifestError(
                "algorithm.name",
                f"{name} asks for {kind}, which {length} numbers answer, and a round has noise for "
                f"{longest_answer(dimension)}: use another algorithm, such as ddp-srm",
            )


def _require_recorded(manifest: Manifest, algorithm: Algorithm) -> None:
    """A manifest that leaves out which rules it was drafted for would be run by others."""
    for name, value in algorithm.recorded().items():
        if manifest.algorithm.parameters.body.get(name) != value:
            raise ManifestError(
                f"algorithm.{name}",
                f"is missing: the manifest was drafted for an older {manifest.algorithm.name} and this one has {name} "
                f"{value}: draft it again, or run it with the version of parley that it was drafted with",
            )


def _require_equal(manifest: Manifest, plan: Plan) -> None:
    """The algorithm steps as it plans; a mechanism that releases something else would fail in the middle of a run."""
    mechanism = manifest.mechanism
    if not plan.private:
        raise ManifestError("algorithm.name", f"{manifest.algorithm.name} is not private: choose one that is")
    if plan.clip != mechanism.clip:
        raise ManifestError(
            "mechanism.clip", f"is not what {manifest.algorithm.name} asks for: write {plan.clip.as_json()}"
        )
    if plan.steps != mechanism.steps:
        raise ManifestError(
            "mechanism.steps",
            f"is {mechanism.steps:,} and {manifest.algorithm.name} plans {plan.steps:,}: write that, or change the "
            "algorithm's parameters",
        )


def _output(body: Any) -> Output:
    allowed = [each.name for each in fields(Output)]
    if not isinstance(body, dict):
        raise AlgorithmError("[algorithm] output is a table: give its rule, and a tail for an average")
    for name in body:
        if name not in allowed:
            raise AlgorithmError(f"[output] has no field {name!r}: use {', '.join(allowed)}")
    return Output(**body)
