"""What a manifest names, built and compared with what it fixes: a mistake shows before anybody is asked to approve."""

import contextlib
from typing import Any

import pytest

from parley.algorithms.errors import AlgorithmError
from parley.algorithms.recursive_momentum import RecursiveMomentum
from parley.algorithms.registry import build, build_algorithm, check_answers, known, named_by, query_of, setting_of
from parley.algorithms.regularisers import Regulariser
from parley.federation.errors import ManifestError
from parley.federation.kinds import CENTRAL
from tests.support.algorithms import started
from tests.support.documents import BODY, manifest

RIDGE = Regulariser("l2", 0.1)


def test_a_table_builds_the_algorithm_with_its_parameters_and_the_regulariser() -> None:
    body = {"name": "ddp-srm", "gamma": 0.25, "output": {"rule": "average", "tail": 0.5}}
    made = build_algorithm(body, RIDGE)
    assert isinstance(made, RecursiveMomentum)
    assert (made.gamma, made.regulariser, made.output.rule, made.output.tail) == (0.25, RIDGE, "average", 0.5)
    assert body["name"] == "ddp-srm"  # whose table it is may go on with it


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "needs a name"),
        ({"name": 7}, "needs a name"),
        ({"name": "ddp-srm", "output": "average"}, "output is a table"),
        ({"name": "ddp-srm", "output": {"rul": "average"}}, "no field 'rul': use rule, tail"),
        ({"name": "ddp-srm", "gama": 1.0}, "no parameter 'gama'"),
    ],
)
def test_a_table_that_means_nothing_is_refused(body: dict[str, Any], says: str) -> None:
    with pytest.raises(AlgorithmError, match=says):
        build_algorithm(body, RIDGE)


@pytest.mark.parametrize("name", sorted(CENTRAL))
def test_an_algorithm_that_no_mechanism_accounts_for_cannot_be_named(name: str) -> None:
    assert name not in known()
    with pytest.raises(AlgorithmError, match="no mechanism accounts for its noise"):
        build_algorithm({"name": name}, RIDGE)


def test_a_manifest_is_built_as_it_says() -> None:
    named = named_by(manifest())
    assert isinstance(named.algorithm, RecursiveMomentum)
    assert named.plan.steps == BODY["mechanism"]["steps"]
    assert named.plan.clip == manifest().mechanism.clip
    assert (named.model.dimension, named.schema.dimension) == (3, 3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mechanism.steps": 40}, "mechanism.steps: is 40 and ddp-srm plans 39"),
        ({"mechanism.clip.gamma": 0.25}, "mechanism.clip: is not what ddp-srm asks for: write"),
        ({"algorithm.gradient_norm": 2.0}, "mechanism.clip: is not what ddp-srm asks for"),
        ({"algorithm.name": "sgd"}, "algorithm.*: no algorithm 'sgd'"),
        ({"algorithm.rate": 1.0}, "algorithm.*: .*no parameter 'rate'"),
        ({"algorithm": {"name": "auto"}}, "algorithm.rules: is missing: .* and this one has rules 2: draft it again"),
        ({"algorithm": {"name": "auto", "rules": 1}}, "algorithm.*: rules is 1 and `auto` follows rules 2 here"),
        ({"regulariser.kind": "l7"}, "regulariser: "),
        ({"model.dimension": 2}, "model.dimension: is 2"),
    ],
)
def test_a_manifest_that_this_installation_cannot_follow_is_refused_by_its_field(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ManifestError, match=says):
        named_by(manifest(**changes))


def test_an_algorithm_plans_with_public_facts_and_a_party_understands_its_question() -> None:
    named = named_by(manifest())
    setting = setting_of(600, named.model, 2.0, 1e-5, named.schema, "logistic")
    assert (setting.records, setting.dimension, setting.columns, setting.intercept) == (600, 3, 3, True)
    assert setting.feature_bound == named.schema.feature_bound
    algorithm, _ = started("ddp-srm")
    ask = algorithm.ask(0)
    query = query_of(0, ask)
    assert (query.kind, query.scale, len(query.points)) == (ask.kind, ask.scale, len(ask.points))


@pytest.mark.parametrize(("points", "fits"), [(65, True), (66, False)])
def test_a_question_with_more_numbers_than_there_is_noise_for_is_refused(
    points: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = build("dp-agd", {})
    monkeypatch.setattr(algorithm, "questions", lambda: {"losses": points})
    with contextlib.nullcontext() if fits else pytest.raises(ManifestError, match="65 numbers"):
        check_answers("dp-agd", algorithm, 23)
