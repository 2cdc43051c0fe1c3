"""A card as a page: it says what the file has, and nothing else; whatever the file has, there is a page."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.learning.card_page import page
from parley.study.model_file import load
from tests.learning.test_plain_page import flat, read

DESCRIPTION: dict[str, Any] = {
    "model": {"kind": "logistic", "dimension": 3},
    "schema": {
        "features": [
            {
                "kind": "number",
                "name": "age",
                "low": 20.0,
                "high": 90.0,
                "centre": 55.0,
                "spread": 35.0,
                "missing": "zero",
            },
            {"kind": "category", "name": "sex", "categories": ["f", "m"], "missing": "f", "other": "refuse"},
            {"kind": "tide", "name": "moon", "phase": "full"},
        ],
        "target": {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]},
        "intercept": True,
        "unit": None,
    },
}
CARD: dict[str, Any] = {
    "run": "heart-1",
    "federation": "cardio",
    "statement": "a sentence",
    "epsilon": 1.5,
    "delta": 1e-5,
    "epsilon_if_a_server_lies": 3.7,
    "unit": "row",
    "parties": {"hospital-a": 3000},
    "aggregators": [{"name": "north", "legal_entity": "North Trust"}],
    "coordinator": {"name": "lead", "legal_entity": "University Hospital"},
    "algorithm": "ddp-srm",
    "rounds": 40,
    "public_records": 230,
    "quality": {"auc": {"value": 0.892, "low": 0.845, "high": 0.926}, "auc[<b>]": {"value": 1.0, "low": None}},
    "digest": "abc123",
}


def said(card: dict[str, Any], description: dict[str, Any] = DESCRIPTION) -> str:
    """Of both forms, which have the same words."""
    made = page(4, description, card)
    found = read(made.html())[1]
    assert flat(made.title) in flat(found)
    return " ".join(found.split())


def test_a_reader_finds_what_they_ask_for() -> None:
    found = said(CARD)
    for part in (
        "heart-1",
        "It predicts whether sick is 1 rather than 0.",
        "It is a logistic regression with 4 parameters.",
        "20 to 90; encoded (value − 55) / 35",
        "f, m; any other: refused",
        "tide",
        "phase: full",
        "55, the centre",
        "hospital-a party 3,000 records",
        "North Trust",
        "a sentence",
        "4.48 times as likely",
        "ε = 1.5 at δ = 1e-05",
        "ε = 3.7 at δ = 1e-05",
        "area under the ROC curve (AUC) 0.892 0.845 to 0.926",
        "AUC of <b> against all others",
        "On 230 records of a public set",
        "abc123",
    ):
        assert part in found, part
    assert "imulated" not in found


def test_a_run_without_own_noise_promises_nothing_against_a_server_that_lies() -> None:
    assert "does anything whatever no guarantee" in said({**CARD, "epsilon_if_a_server_lies": None})


def test_audits_stand_beside_what_holds_if_a_server_lies_and_nothing_that_a_file_makes_up() -> None:
    found = said({**CARD, "security": "covert", "own": 0.5, "audit": "1/4"})
    worth = "stay unseen with probability at most (3/4)^k; one spoiled batch bares every round that draws on it"
    assert "ε = 3.7 at δ = 1e-05. The aggregators audit each other in secret, which protects no single round" in found
    assert worth in found
    assert "share of the noise that each aggregator audits 1/4" in found
    strange: Any
    for strange in (
        {"security": "semi-honest"},
        {"security": ["covert"]},
        {"audit": "2"},
        {"audit": None},
        {"audit": []},
    ):
        assert "in secret" not in said({**CARD, "security": "covert", "audit": "1/4", **strange})


def test_a_simulated_model_says_so_at_the_top() -> None:
    fits = {"fits": 5, "epsilon_of_all_fits": 7.5, "delta_of_all_fits": 5e-5}
    found = said({**CARD, "simulation": True, **fits})
    assert found.index("Simulated: one person had all records") < found.index("What it predicts")
    assert "the person who ran the simulation nothing" in found
    assert "shown where it was trained: 5. Together they cost ε = 7.5 at δ = 5e-05." in found
    assert "aggregator that" not in found
    unsure: object
    for unsure in (True, {}, "yes"):
        found = said({**CARD, "simulation": unsure, "epsilon": None})
        assert "this model protects nobody" in found
        assert "times as likely" not in found
        assert "ε =" not in found


def test_a_model_that_went_on_from_another_says_what_that_one_cost() -> None:
    start = {"digest": "feed", "private": True, "run": "heart-0", "epsilon": 2.5, "delta": 1e-6}
    found = said({**CARD, "start": start})
    assert "started from the model of heart-0 (digest feed). Private records had gone into that one" in found
    assert "(ε = 2.5 at δ = 1e-06) adds to what stands here" in found
    assert "Nobody's privacy was spent on that one" in said({**CARD, "start": {"digest": "feed", "private": False}})
    assert "Private records had gone into" in said({**CARD, "start": {"digest": "feed"}})


def test_a_set_that_has_chosen_the_model_is_said_to_have_done_so() -> None:
    assert "The same set has chosen the round" in said({**CARD, "chosen_round": 7})
    assert "has chosen" not in said(CARD)


def test_a_simulation_on_open_records_says_so() -> None:
    found = said({**CARD, "simulation": True, "epsilon": None, "records": "made up"})
    assert "on records that are made up: nobody's privacy was at stake" in found


def test_without_a_public_set_nothing_is_said_of_quality() -> None:
    assert "nothing is known of how good" in said({**CARD, "quality": None, "evaluation": None})
    assert "accuracy 0.800 –" in said({**CARD, "quality": None, "evaluation": {"accuracy": 0.8}})


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"name": "y", "kind": "classes", "classes": ["a", "b"]}, "which class y is: a, b"),
        ({"name": "y", "kind": "number", "low": 0.0, "high": 20.0}, "the number y, between 0 and 20"),
    ],
)
def test_every_kind_of_target_has_its_sentence(target: dict[str, Any], words: str) -> None:
    uniform = {"count": 4, "low": 0.0, "high": 1.0, "centre": 0.0, "spread": 1.0}
    schema = {"features": uniform, "target": target}
    found = said(CARD, {"model": {"kind": "perceptron", "hidden": [8, 4], "activation": "relu"}, "schema": schema})
    assert words in found
    assert "4 numeric columns, each cut to 0 to 1" in found
    assert "hidden: 8, 4; activation: relu" in found


def test_eighteen_hundred_columns_are_not_listed_one_by_one() -> None:
    features = [{"kind": "number", "name": f"x{index}", "low": 0.0, "high": 1.0} for index in range(1800)]
    found = said(CARD, {"model": {}, "schema": {"features": features, "target": {}}})
    assert "And 1,600 columns more" in found
    assert "x199" in found
    assert "x200" not in found


def test_the_card_of_a_real_file_becomes_a_page_with_nothing_that_is_not_in_the_file(path: Path) -> None:
    model = load(path)
    made = page(len(model.theta), model.description, model.card)
    words = read(made.html())[1]
    for each in (model.card["manifest_digest"], model.card["digest"], "hospital-c", "University Hospital"):
        assert each in words
        assert each in made.markdown()
    assert str(path) not in made.html() + made.markdown()
    assert made.html() == page(len(model.theta), model.description, model.card).html()


KEYS = [
    *CARD, *DESCRIPTION, *DESCRIPTION["schema"], *DESCRIPTION["schema"]["target"],
    "simulation", "start", "private", "chosen_round", "fits", "epsilon_of_all_fits", "software",
    "records", "auc[x]", "hospital", "count", "evaluation",
    *DESCRIPTION["schema"]["features"][0], *DESCRIPTION["schema"]["features"][1],
]  # fmt: skip
json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), json), st.dictionaries(st.sampled_from(KEYS), json))
def test_any_content_whatever_becomes_a_page(description: dict[str, Any], card: dict[str, Any]) -> None:
    made = page(3, description, {**CARD, **card})
    assert set(read(made.html())[0]).isdisjoint({"script", "a", "img"})
    assert made.markdown().startswith("# Model card")
