"""What a manifest names, ready to be run: algorithm, plan, starting point, public evaluation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Ask
from parley.algorithms.early_stop import Stopper
from parley.algorithms.registry import named_by
from parley.algorithms.regularisers import Regulariser
from parley.coordinator.code import bound, opened, opened_extractors
from parley.coordinator.questions import Prepared
from parley.coordinator.starts import warm_start
from parley.federation.manifest import Manifest
from parley.federation.question import answer_length
from parley.learning import metrics
from parley.learning.evaluation import evaluate
from parley.learning.features import Extract, unknown_code
from parley.learning.holding import CSV, Layout
from parley.learning.models import Model
from parley.learning.pictures import MOST_ROWS, Example, PublicPictures, picture_shape, taken
from parley.learning.readers import read
from parley.learning.records import Records, load
from parley.learning.schema import Schema
from parley.models.registry import model_of
from parley.privacy.randomness import Randomness, SystemRandomness, uniform_words

Floats = NDArray[np.float64]


def prepare(
    manifest: Manifest,
    evaluation: Sequence[Path] = (),
    randomness: Randomness | None = None,
    layout: Layout = CSV,
    state: Path | None = None,
    policy: Path | None = None,
) -> Prepared:
    """Refused where this installation cannot follow the manifest. `evaluation` is a PUBLIC data set in `layout`.

    `state` is the coordinator's folder of state, where a run that starts from a model file finds it; `policy` is its
    policy.toml, which allows a user's own module.
    """
    named = named_by(manifest)
    apart = opened(manifest, named.schema, named.model, policy)
    close = apart.close if apart is not None else _nothing
    try:
        model = bound(named.model, apart)
        if manifest.start is None:
            theta = model.initial(uniform_words(randomness or SystemRandomness(), model.dimension))
        else:
            theta = warm_start(manifest, state).theta
        public = _public_set(manifest, evaluation, layout, model, policy)
    except BaseException:
        close()
        raise
    stopper = Stopper(manifest.stop_early) if manifest.stop_early else None

    def length(ask: Ask) -> int:
        return answer_length(ask.kind, len(ask.points), named.model.dimension)

    if public is None:
        return Prepared(
            named.algorithm, named.plan, theta, length, _no_figures, _no_figures, stopper=stopper, close=close
        )
    given = (public.each, public.last, public.examples)
    return Prepared(named.algorithm, named.plan, theta, length, *given, stopper=stopper, close=close)


def _no_figures(theta: Floats) -> dict[str, Any]:
    """Without a public set."""
    return {}


def _public_set(
    manifest: Manifest, files: Sequence[Path], layout: Layout, model: Model, policy: Path | None
) -> "PublicSet | None":
    """With a user's own features of the public set, which are computed here and now."""
    extractors = opened_extractors(manifest, model_of(manifest)[0], policy) if files else None
    try:
        return PublicSet.of(manifest, files, layout, model, extractors or unknown_code) if files else None
    finally:
        if extractors is not None:
            extractors.close()


def _nothing() -> None:
    """A built-in model has no process."""


@dataclass(frozen=True)
class PublicSet:
    """Public records, and the model whose numbers are tried on them."""

    records: Records
    schema: Schema
    model: Model
    regulariser: Regulariser
    pictures: PublicPictures | None
    """Where its rows are pictures."""

    @classmethod
    def of(
        cls, manifest: Manifest, files: Sequence[Path], layout: Layout, model: Model, extract: Extract = unknown_code
    ) -> "PublicSet":
        """Read and encoded."""
        schema, _ = model_of(manifest)
        records = load(files, schema, layout, extract)
        shape = picture_shape(manifest.as_json()["model"], schema)
        pictures = None
        if shape is not None:
            data = read(files, layout, schema.target.name)
            pictures = PublicPictures(taken(data, np.arange(MOST_ROWS)), records, schema, shape, layout)
        return cls(records, schema, model, Regulariser(**manifest.regulariser.body), pictures)

    def each(self, theta: Floats) -> dict[str, float]:
        """Of a round's model."""
        return quality(self.model, self.records, theta, self.regulariser, self.schema.target.kind)

    def last(self, theta: Floats) -> dict[str, Any]:
        """Of the finished one."""
        return {**self.each(theta), **measured(self.model, self.records, theta, self.schema)}

    def examples(self, theta: Floats) -> tuple[Example, ...]:
        """Of right and wrong answers; none where rows are no pictures."""
        return () if self.pictures is None else self.pictures.examples(self.model, theta)


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
