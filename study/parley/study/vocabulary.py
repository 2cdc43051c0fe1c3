"""Whether this installation knows what a manifest names: its schema, model, algorithm and their parameters.

`federation` cannot ask, for it knows neither `party` nor `coordinator`; every role builds the same things when it
starts a run and refuses there too. Here all of them are at hand, so a mistake shows before anybody is asked to approve.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from parley.algorithms.algorithm import Algorithm, Plan
from parley.algorithms.errors import AlgorithmError
from parley.algorithms.regularisers import Regulariser
from parley.federation.errors import ManifestError
from parley.federation.manifest import Manifest, longest_answer
from parley.learning.contributor import Query, answer_length
from parley.learning.errors import PartyError
from parley.learning.schema import schema_from_json
from parley.privacy.errors import PrivacyError
from parley.study.errors import StudyError
from parley.study.run_file import build_algorithm, build_model, setting_of

Built = TypeVar("Built")


def check_vocabulary(manifest: Manifest) -> None:
    """Raise a ManifestError that names the first field this installation cannot follow."""
    schema = _built("schema", lambda: schema_from_json(manifest.schema.body))
    options = {"kind": manifest.model.kind, **manifest.model.options.body}
    model = _built("model", lambda: build_model(options, schema))
    if model.dimension != manifest.model.dimension:
        raise ManifestError(
            "model.dimension",
            f"is {manifest.model.dimension:,} and a {manifest.model.kind} model on this schema has "
            f"{model.dimension:,} parameters: write that",
        )
    regulariser = _built("regulariser", lambda: Regulariser(**manifest.regulariser.body))
    parameters = {"name": manifest.algorithm.name, **manifest.algorithm.parameters.body}
    algorithm = _built("algorithm", lambda: build_algorithm(parameters, regulariser))
    mechanism, guarantee = manifest.mechanism, manifest.guarantee
    units = sum(mechanism.sampler(party, 0).units for party in manifest.parties)
    setting = setting_of(units, model, guarantee.epsilon, guarantee.delta, schema, manifest.model.kind)
    _agrees(manifest, _built("algorithm", lambda: algorithm.plan(setting)))
    check_answers(manifest.algorithm.name, algorithm, model.dimension)


def check_answers(name: str, algorithm: Algorithm, dimension: int) -> None:
    """Once it has planned: so many numbers per round the servers have noise for, and certify."""
    for kind, points in algorithm.questions().items():
        length = answer_length(Query(0, (np.zeros(0),) * points, kind), dimension)
        if length > longest_answer(dimension):
            raise ManifestError(
                "algorithm.name",
                f"{name} asks for {kind}, which {length} numbers answer, and a round has noise for "
                f"{longest_answer(dimension)}: use another algorithm, such as ddp-srm",
            )


def _agrees(manifest: Manifest, plan: Plan) -> None:
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


def _built(field: str, build: Callable[[], Built]) -> Built:
    try:
        return build()
    except (PartyError, AlgorithmError, StudyError, PrivacyError) as error:
        raise ManifestError(field, str(error)) from None
    except (TypeError, ValueError) as error:  # a parameter of another type, or one that the dataclass does not have
        raise ManifestError(field, f"{error}: change the parameter's type or name") from None
