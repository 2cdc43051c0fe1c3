"""What a manifest names, ready to be run: algorithm, plan, starting point, public evaluation."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Ask
from parley.algorithms.registry import named_by
from parley.algorithms.regularisers import Regulariser
from parley.coordinator.questions import Prepared
from parley.federation.manifest import Manifest
from parley.federation.question import answer_length
from parley.learning.evaluation import evaluate
from parley.learning.holding import CSV, Layout
from parley.learning.models import Model
from parley.learning.records import Records, load
from parley.learning.registry import model_of
from parley.privacy.randomness import Randomness, SystemRandomness, uniform_words

Floats = NDArray[np.float64]


def prepare(
    manifest: Manifest,
    evaluation: Sequence[Path] = (),
    randomness: Randomness | None = None,
    layout: Layout = CSV,
) -> Prepared:
    """Refused where this installation cannot follow the manifest. `evaluation` is a PUBLIC data set in `layout`."""
    named = named_by(manifest)
    theta = named.model.initial(uniform_words(randomness or SystemRandomness(), named.model.dimension))

    def length(ask: Ask) -> int:
        return answer_length(ask.kind, len(ask.points), named.model.dimension)

    return Prepared(named.algorithm, named.plan, theta, length, evaluator(manifest, evaluation, layout))


def evaluator(manifest: Manifest, files: Sequence[Path], layout: Layout = CSV) -> Callable[[Floats], dict[str, float]]:
    """Loss, error and, for binary targets, accuracy and AUC on public files; nothing without files."""
    if not files:
        return lambda theta: {}
    schema, model = model_of(manifest)
    records = load(files, schema, layout)
    regulariser = Regulariser(**manifest.regulariser.body)
    return lambda theta: quality(model, records, theta, regulariser, schema.target.kind)


def quality(model: Model, records: Records, theta: Floats, regulariser: Regulariser, kind: str) -> dict[str, float]:
    """As the dashboard, the card and `--json` name it."""
    found = evaluate(model, records, theta, regulariser, kind)
    figures = {"loss": found.loss, "error": found.error}
    if kind != "number":
        figures["accuracy"] = 1 - found.error
    if found.auc is not None:
        figures["auc"] = found.auc
    return figures
