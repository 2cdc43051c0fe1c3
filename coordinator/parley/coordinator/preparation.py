"""What a manifest names, ready to be run: algorithm, plan, starting point, public evaluation."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Ask
from parley.algorithms.early_stop import Stopper
from parley.algorithms.registry import named_by
from parley.algorithms.regularisers import Regulariser
from parley.coordinator.questions import Prepared
from parley.coordinator.starts import warm_start
from parley.federation.manifest import Manifest
from parley.federation.question import answer_length
from parley.learning import metrics
from parley.learning.evaluation import evaluate
from parley.learning.holding import CSV, Layout
from parley.learning.models import Model
from parley.learning.records import Records, load
from parley.learning.registry import model_of
from parley.learning.schema import Schema
from parley.privacy.randomness import Randomness, SystemRandomness, uniform_words

Floats = NDArray[np.float64]


def prepare(
    manifest: Manifest,
    evaluation: Sequence[Path] = (),
    randomness: Randomness | None = None,
    layout: Layout = CSV,
    state: Path | None = None,
) -> Prepared:
    """Refused where this installation cannot follow the manifest. `evaluation` is a PUBLIC data set in `layout`.

    `state` is the coordinator's folder of state, where a run that starts from a model file finds it.
    """
    named = named_by(manifest)
    if manifest.start is None:
        theta = named.model.initial(uniform_words(randomness or SystemRandomness(), named.model.dimension))
    else:
        theta = warm_start(manifest, state).theta
    stopper = Stopper(manifest.stop_early) if manifest.stop_early else None

    def length(ask: Ask) -> int:
        return answer_length(ask.kind, len(ask.points), named.model.dimension)

    return Prepared(named.algorithm, named.plan, theta, length, *evaluators(manifest, evaluation, layout), stopper)


def evaluators(
    manifest: Manifest, files: Sequence[Path], layout: Layout = CSV
) -> tuple[Callable[[Floats], dict[str, float]], Callable[[Floats], dict[str, Any]]]:
    """Of a round's model, and of the finished one, on public files; both give nothing without files."""
    if not files:
        return lambda theta: {}, lambda theta: {}
    schema, model = model_of(manifest)
    records = load(files, schema, layout)
    regulariser = Regulariser(**manifest.regulariser.body)

    def each(theta: Floats) -> dict[str, float]:
        return quality(model, records, theta, regulariser, schema.target.kind)

    def last(theta: Floats) -> dict[str, Any]:
        return {**each(theta), **measured(model, records, theta, schema)}

    return each, last


def quality(model: Model, records: Records, theta: Floats, regulariser: Regulariser, kind: str) -> dict[str, float]:
    """As the dashboard, the card and `--json` name it: loss, error, accuracy, and for binary targets the AUC."""
    found = evaluate(model, records, theta, regulariser, kind)
    figures = {"loss": found.loss, "error": found.error}
    if kind != "number":
        figures["accuracy"] = 1 - found.error
    if found.auc is not None:
        figures["auc"] = found.auc
    return figures


def measured(model: Model, records: Records, theta: Floats, schema: Schema) -> dict[str, Any]:
    """What a card says of a finished model: every figure with its interval, and of how many public records."""
    figures = metrics.metrics(model, records, theta, schema.target)
    return {"quality": metrics.as_json(figures), "public_records": len(records.rows)}
