"""A plan is the manifest's figures, and a simulation's; and it says what everybody could learn."""

import math
from typing import Any

import pytest

from parley.federation.meaning import verify
from parley.study.errors import StudyError
from parley.study.manifests import drafted
from parley.study.plan import NO_INTERCEPT, PLACEHOLDERS, bound
from parley.study.study import Study
from tests.study.test_study import COLUMNS

SIZES = {"a": 400, "b": 300}
QUICK = {"name": "dp-gd", "clip_norm": 1.0, "steps_taken": 5, "step": 1.0}
STUDY = Study(COLUMNS, epsilon=1.0, algorithm=QUICK)


@pytest.mark.parametrize(
    "changes",
    [{}, {"security": "covert"}, {"security": "malicious"}, {"own": 0.0}, {"epsilon": 8.0}, {"worst_epsilon": 3.0}],
)
def test_a_plan_and_its_manifest_never_differ(changes: dict[str, Any]) -> None:
    study = STUDY.replaced(**changes)
    plan, manifest = study.plan(SIZES), drafted(study, SIZES, **PLACEHOLDERS)
    meaning = verify(manifest)
    assert plan.epsilon == meaning.epsilon
    assert plan.epsilon_if_a_server_lies == meaning.epsilon_if_a_server_lies
    assert plan.rounds == manifest.releases
    assert plan.noise_multiplier == manifest.mechanism.noise_multiplier
    assert (plan.own, plan.security) == (manifest.noise.parts.own, manifest.noise.parts.security)
    assert plan.audit == manifest.noise.parts.audit == plan.as_json()["audit"]
    assert plan.statement == meaning.statement
    assert plan.parties == SIZES


def test_names_change_no_figure() -> None:
    named = STUDY.replaced(run="heart-1", federation="cardio", parties=SIZES)
    assert named.plan() == STUDY.plan(SIZES)


def test_every_adversary_is_named_with_what_bounds_them() -> None:
    plan = STUDY.plan(SIZES)
    found = {each.who: each.epsilon for each in plan.adversaries}
    for who in ("the coordinator", "all other parties together", "whoever gets only the model"):
        assert found[who] == plan.epsilon
    assert found["one aggregator that follows the protocol"] == plan.epsilon
    assert found["one aggregator that lies"] == plan.epsilon_if_a_server_lies
    assert plan.epsilon_if_a_server_lies is not None
    assert plan.epsilon_if_a_server_lies > plan.epsilon
    assert found["both aggregators together"] is None


def test_without_own_noise_a_server_that_lies_is_bounded_by_nothing_and_under_malicious_by_epsilon() -> None:
    def liar(**changes: Any) -> Any:
        return next(each for each in STUDY.replaced(**changes).plan(SIZES).adversaries if "lies" in each.who)

    assert liar(own=0.0).epsilon is None
    assert "no guarantee" in liar(own=0.0).learns
    assert liar(security="malicious").epsilon == pytest.approx(1.0, rel=1e-3)


def test_audits_are_no_bound_and_stand_beside_one() -> None:
    plain, plan = STUDY.plan(SIZES), STUDY.replaced(security="covert", audit="1/2").plan(SIZES)
    (liar,) = [each for each in plan.adversaries if "lies" in each.who]
    assert liar.epsilon == plain.epsilon_if_a_server_lies == plan.epsilon_if_a_server_lies
    assert liar.learns.endswith(plan.statement[plan.statement.index("The aggregators audit each other") :])
    assert "at most (1/2)^k" in liar.learns
    assert [each for each in plan.adversaries if each is not liar] == [
        each for each in plain.adversaries if "lies" not in each.who
    ]


def test_one_site_is_a_central_model_with_no_server_to_lie() -> None:
    plan = STUDY.plan(700)
    assert plan.parties == {"site": 700}
    assert plan.epsilon_if_a_server_lies is None
    assert [each.who for each in plan.adversaries] == ["whoever gets only the model", "whoever trains it"]
    assert plan.statement.startswith("Central model")
    assert STUDY.plan({"alone": 700}).noise_multiplier == plan.noise_multiplier


def test_a_plan_shows_itself_on_a_screen_in_a_notebook_and_to_a_script() -> None:
    plan = Study({**COLUMNS, "intercept": False}, epsilon=1.0, algorithm=QUICK).plan(SIZES)
    for shown in (str(plan), plan._repr_html_()):
        for word in ("epsilon", "one aggregator that lies", "e-05", "intercept is false"):
            assert word in shown, word
    body = plan.as_json()
    assert {"epsilon", "epsilon_if_a_server_lies", "delta", "rounds", "noise_multiplier", "advice"} <= set(body)
    assert body["advice"] == (NO_INTERCEPT,)
    assert STUDY.plan(SIZES).advice == ()


@pytest.mark.parametrize("records", [0, -3, "many", 2.5, {"a": 0}, {"a": 2.5}, {"a": True}])
def test_records_that_are_none_are_refused(records: Any) -> None:
    with pytest.raises(StudyError, match="whole number of at least 1"):
        STUDY.plan(records)


def test_without_records_it_asks_for_them() -> None:
    with pytest.raises(StudyError, match="how many records"):
        STUDY.plan()


def test_what_is_not_private_has_no_plan() -> None:
    for records in (100, SIZES):
        with pytest.raises(StudyError, match="not private"):
            STUDY.replaced(algorithm="storm").plan(records)


def test_words_are_true_to_epsilon() -> None:
    assert f"{math.exp(1.5):.3g} times" in bound(1.5)
    assert "e^20 times" in bound(20.0)
