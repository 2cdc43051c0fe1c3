"""What a simulation shows, to whom, and what it never saves."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley import study
from parley.learning.model_archive import read_archive
from parley.study.errors import StudyError
from parley.study.fit_costs import SPENDING
from parley.study.result import Result, interval, limits
from parley.study.simulate import constant
from parley.study.simulation import Federation, Outcome
from parley.study.study import Study
from parley.study.surroundings import BoundsWarning
from tests.study.test_plan import QUICK
from tests.study.test_study import COLUMNS

STUDY = Study(COLUMNS, epsilon=3.0, algorithm=QUICK)


def people(count: int, seed: int) -> dict[str, Any]:
    """Whose chance grows with age and dose."""
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(0, 100, count), rng.uniform(0, 5, count)
    ill = rng.random(count) < 1 / (1 + np.exp(-(age / 25 + dose - 4.5)))
    return {"age": age.tolist(), "dose": dose.tolist(), "ill": ill.astype(int).tolist()}


PARTIES = {"a": people(400, 1), "b": people(300, 2)}
PUBLIC = people(500, 3)


@pytest.fixture(scope="module")
def result() -> Result:
    return STUDY.simulate(PARTIES, test=PUBLIC, seeds=3)


def test_a_model_is_found_and_it_beats_guessing(result: Result) -> None:
    assert result.quality["auc"].mean > 0.7
    assert not result.worse_than_guessing
    assert result.constant["auc"] == 0.5
    assert result.without_privacy["auc"] > 0.75
    assert result.plan is not None
    assert result.plan.epsilon == pytest.approx(3.0, rel=1e-3)
    found = result.predict_proba(PUBLIC)
    assert found.shape == (500, 2)
    assert set(result.predict(PUBLIC)) <= {"0", "1"}


def test_its_plan_is_the_studys_own(result: Result) -> None:
    assert result.plan == STUDY.plan({"a": 400, "b": 300})


def test_figures_over_seeds_come_with_students_interval(result: Result) -> None:
    from scipy.stats import t

    values = [each["auc"] for each in result.figures]
    low, high = t.interval(0.95, 2, loc=np.mean(values), scale=np.std(values, ddof=1) / np.sqrt(3))
    found = result.quality["auc"]
    assert (found.mean, found.low, found.high) == pytest.approx((np.mean(values), low, high))
    assert STUDY.simulate(PARTIES, test=PUBLIC, seeds=1).quality["auc"].low is None


def test_what_is_saved_is_the_first_seeds_and_holds_no_figure_that_is_not_private(
    result: Result, tmp_path: Path
) -> None:
    result.save(tmp_path / "model.npz")
    theta, _, card = read_archive(tmp_path / "model.npz")
    assert (theta == result.fit.theta).all()
    assert card.pop("evaluation") == dict(result.figures[0])
    quality = card.pop("quality")
    assert {name: each["value"] for name, each in quality.items()} == dict(result.figures[0])
    assert quality["auc"]["low"] < quality["auc"]["value"]
    # In the rest: a share of 500 rows may be the same without privacy, or in two seeds.
    assert card["statement"].startswith("Central model: whoever ran the training saw the records.")
    saved = json.dumps(card)
    without = [value for name, value in result.without_privacy.items() if name != "accuracy"]  # may be equal by chance
    for private in (result.quality["loss"].mean, *without, result.constant["loss"]):
        assert repr(private) not in saved
    for run in result.runs:
        assert repr(run["train_loss"]) not in saved
    assert all(repr(each["loss"]) not in saved for each in result.figures[1:])


def test_a_test_set_that_is_the_records_is_refused_and_one_that_may_be_a_part_of_them_is_said() -> None:
    """Else a card would show figures on private records, and call them public."""
    for data, same in ((PARTIES["a"], PARTIES["a"]), (PARTIES, PARTIES["b"])):
        with pytest.raises(StudyError, match="test is the same table as the records of"):
            STUDY.simulate(data, test=same, seeds=1)
    part = {name: cells[:50][::-1] for name, cells in PARTIES["a"].items()}
    with pytest.warns(BoundsWarning, match="50 of 50 different rows of test are among the records too"):
        STUDY.simulate(PARTIES, test=part, seeds=1)
    assert STUDY.simulate(PARTIES["a"], test=PARTIES["a"], seeds=1, public=True).fit.records == "public"


def test_made_up_rows_are_scored_on_made_up_rows(tmp_path: Path) -> None:
    """Not on the study's own public file, which is often not there yet, and says nothing of them."""
    wanted = STUDY.replaced(data={"test": [str(tmp_path / "elsewhere.csv")]})
    found = wanted.simulate(wanted.made_up(300), seeds=1)
    assert (found.tested, found.public_test, found.fit.records) == (60, False, "made up")


def test_an_interval_over_two_seeds_stays_where_its_figure_can_be() -> None:
    assert interval([0.9, 0.99], *limits("auc[b]")).high == 1.0
    assert interval([0.3, 0.9], *limits("loss")).low == 0.0
    assert interval([-5.0, 0.9], *limits("r2")).high == 1.0
    wide = interval([0.5, 2.0], *limits("calibration_slope"))
    assert wide.low is not None
    assert wide.low < 0


def test_a_result_and_a_plan_are_a_line_each_where_they_are_not_printed(result: Result) -> None:
    for shown in (repr(result), repr(result.plan)):
        assert len(shown) < 250
        assert "array(" not in shown
        assert "epsilon 3" in shown


def test_a_result_that_is_carried_to_another_process_does_not_forget_the_fits(result: Result) -> None:
    copied = pickle.loads(pickle.dumps(result))
    assert copied.records == ()
    assert copied.fits == copied.model.card["fits"] == SPENDING.everything.fits
    program = "import pickle, sys; r = pickle.load(sys.stdin.buffer); print(r.fits, r.model.card['fits'])"
    ran = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(result), capture_output=True, check=True)
    assert ran.stdout.split() == [str(SPENDING.everything.fits).encode()] * 2


def test_figures_on_records_that_were_held_out_are_in_no_card() -> None:
    found = STUDY.simulate(PARTIES, seeds=1)
    assert not found.public_test
    card = found.model.card
    assert (card["evaluation"], card["quality"]) == (None, None)
    assert card["parties"] == {"a": 320, "b": 240}
    assert "140 held-out records" in str(found)


def test_the_screen_counts_the_fits_of_these_records_and_the_card_those_of_the_process() -> None:
    """How many fits shared a record is a function of records: no card may tell it."""
    records = {"a": people(200, 11), "b": people(200, 12)}
    before = SPENDING.everything
    first = STUDY.simulate(records, test=PUBLIC, seeds=2)
    assert first.fits == 2
    assert STUDY.replaced(epsilon=1.0).simulate(records, seeds=3).fits == 5 == first.fits
    assert "all 5 fits of these records that were made here cost 9 together" in " ".join(str(first).split())
    others = STUDY.simulate({"a": people(200, 13), "b": people(200, 14)}, seeds=1)
    assert others.fits == 1
    for found in (first, others):
        card = found.model.card
        assert card["fits"] == before.fits + 6
        assert card["epsilon_of_all_fits"] == pytest.approx(before.epsilon + 2 * 3.0 + 3 * 1.0 + 3.0, rel=1e-3)
        assert card["delta_of_all_fits"] == pytest.approx(before.delta + 6e-5)


def test_a_record_that_two_parties_have_is_charged_once_for_each_fit() -> None:
    twice = people(150, 16)
    assert STUDY.simulate({"a": twice, "b": twice}, seeds=2).fits == 2


def test_an_estimators_fit_of_the_same_records_counts_with_a_simulations() -> None:
    table = people(300, 15)
    STUDY.simulate(table, seeds=2)
    features = {name: table[name] for name in ("age", "dose")}
    made = study.PrivateClassifier(epsilon=2.0, schema=COLUMNS, classes=[0, 1], algorithm=QUICK).fit(
        features, table["ill"]
    )
    assert made.privacy_.total.fits == 3


def test_keys_are_fresh_and_repeatable_ones_protect_nobody() -> None:
    found = [STUDY.simulate(PARTIES, test=PUBLIC, seeds=1).fit.theta for _ in range(2)]
    assert (found[0] != found[1]).any()
    before = SPENDING.everything
    again = [STUDY.simulate(PARTIES, test=PUBLIC, seeds=1, repeatable=True) for _ in range(2)]
    assert (again[0].fit.theta == again[1].fit.theta).all()
    card = again[0].model.card
    assert (card["epsilon"], card["delta"], card["fits"]) == (None, None, None)
    assert "protects nobody" in card["statement"]
    assert "protects nobody" in str(again[0])
    assert "no guarantee" in str(again[0]).splitlines()[0]
    body = again[0].as_json()
    for said in (*body["runs"], body["plan"]):
        assert "protects nobody" in said["statement"]
        assert "differentially private" not in json.dumps(said)
    assert SPENDING.everything == before


def test_the_noise_of_a_saved_model_follows_from_no_small_seed() -> None:
    """A thousand seeds that a person might try give other models: the key has 256 bits and is thrown away."""
    secret = STUDY.simulate(PARTIES, test=PUBLIC, seeds=1).fit.theta
    tried = STUDY.simulate(PARTIES, test=PUBLIC, seeds=40, repeatable=True)
    assert all(each["loss"] != tried.figures[0]["loss"] for each in tried.figures[1:])
    assert (tried.fit.theta != secret).all()


def test_worse_than_guessing_is_said() -> None:
    found = STUDY.replaced(epsilon=0.01).simulate(
        {"a": people(60, 4), "b": people(60, 5)}, test=PUBLIC, seeds=3, repeatable=True
    )
    assert found.worse_than_guessing
    assert "Worse than guessing" in str(found)
    assert "Worse than guessing" in found._repr_html_()


@pytest.mark.parametrize(
    ("target", "model", "answers", "names"),
    [
        ({"kind": "number", "low": 0, "high": 200}, "linear", "number", {"rmse", "mae", "r2"}),
        ({"kind": "classes", "classes": ["a", "b", "c"]}, "softmax", "class", {"loss", "accuracy", "auc[b]"}),
    ],
)
def test_numbers_and_classes_have_their_figures(
    target: dict[str, Any], model: str, answers: str, names: set[str]
) -> None:
    def with_answers(count: int, seed: int) -> dict[str, Any]:
        body = people(count, seed)
        number = [age + 20 * dose for age, dose in zip(body["age"], body["dose"], strict=True)]
        body["ill"] = number if answers == "number" else ["abc"[min(2, int(each / 67))] for each in number]
        return body

    columns = {**COLUMNS, "target": {"name": "ill", **target}}
    wanted = Study(columns, model=model, epsilon=5.0, algorithm={**QUICK, "steps_taken": 20})
    found = wanted.simulate(with_answers(900, 6), test=with_answers(400, 7), seeds=2)
    assert names <= set(found.quality)
    assert names <= set(found.constant)
    assert not found.worse_than_guessing
    assert found.curve.measure == ("RMSE" if answers == "number" else "loss")
    last, of_the_model = found.curve.private[-1][1], found.figures[0]["rmse" if answers == "number" else "loss"]
    assert last == pytest.approx(of_the_model)


def test_a_constant_is_the_best_answer_that_is_the_same_for_everybody() -> None:
    from parley.study.data import sets_of

    sets = sets_of(STUDY, PARTIES, PUBLIC)
    answers = np.concatenate([records.targets for records in sets.own.values()])
    rate, share = answers.mean(), np.mean(PUBLIC["ill"])
    found = constant(sets, STUDY.schema.target)
    assert found["loss"] == pytest.approx(-(share * np.log(rate) + (1 - share) * np.log(1 - rate)), rel=1e-3)
    assert found["accuracy"] == pytest.approx(share if rate > 0.5 else 1 - share)


def test_a_result_shows_itself_and_draws_itself(result: Result, tmp_path: Path) -> None:
    for shown in (str(result), result._repr_html_()):
        for word in ("3 seeds", "without privacy", "constant", "auc", "Not private", "500 public records"):
            assert word in shown, word
    assert [each[0] for each in result.curve.private] == [1, 2, 3, 4, 5]
    picture = result.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert picture._repr_png_() == (tmp_path / "curve.png").read_bytes()
    json.dumps(result.as_json(), allow_nan=False)


def test_processes_share_the_seeds() -> None:
    one, two = (
        STUDY.simulate(PARTIES, test=PUBLIC, seeds=3, repeatable=True, workers=count).figures for count in (1, 2)
    )
    assert one == two


def test_what_is_not_private_says_so_and_claims_nothing(tmp_path: Path) -> None:
    found = STUDY.replaced(algorithm={"name": "storm", "batch": 50, "passes": 2.0, "step": 1.0}).simulate(
        PARTIES, test=PUBLIC, seeds=1
    )
    assert found.plan is None
    assert found.model.card["epsilon"] is None
    assert "protects nobody" in str(found)
    found.save(tmp_path / "model.npz")
    assert "protects nobody" in study.load(tmp_path / "model.npz").card["statement"]


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"seeds": True}, {"workers": 0}, {"workers": "2"}])
def test_numbers_of_runs_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match="whole numbers of at least 1"):
        STUDY.simulate(PARTIES, **wrong)


def test_bounds_that_do_not_suit_are_said_to_whoever_simulates_and_go_nowhere_else(tmp_path: Path) -> None:
    table = {**people(300, 5), "age": [each / 100 for each in range(300)]}
    with pytest.warns(BoundsWarning, match=r"a: age: its values fill 3\.0% of low = 0, high = 100.* for you alone"):
        found = STUDY.simulate({"a": table, "b": people(300, 6)}, test=PUBLIC, seeds=1)
    found.save(tmp_path / "model.npz")
    assert "fill" not in json.dumps(found.as_json())
    assert "fill" not in json.dumps(read_archive(tmp_path / "model.npz")[1:], default=str)


def test_a_card_tells_nothing_of_records_but_what_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours whose runs released the same have the same card: whatever else differs, a record has decided it."""
    one, other = people(200, 21), people(200, 21)
    other["age"][7], other["ill"][7] = 99.0, 1 - other["ill"][7]
    monkeypatch.setattr(Federation, "run", lambda self, watch=None: Outcome(np.array([1.0, 2.0, -1.0]), 0.1, 0.1, 5))
    released = {"digest", "written", "fits", "epsilon_of_all_fits", "delta_of_all_fits", "statement"}
    for test in (None, PUBLIC):
        cards = [
            STUDY.simulate({"a": each, "b": people(150, 22)}, test=test, seeds=1).model.card for each in (one, other)
        ]
        assert {name for name in cards[0] if cards[0][name] != cards[1][name]} <= released
        # These grow by one fit, whichever records it was of.
        assert cards[1]["fits"] == cards[0]["fits"] + 1
        assert cards[0]["statement"].partition(" fits")[0].rstrip("0123456789") == (
            cards[1]["statement"].partition(" fits")[0].rstrip("0123456789")
        )


def test_columns_of_every_kind_are_learnt_saved_and_asked_again(tmp_path: Path) -> None:
    body = {
        "features": [
            {"name": "income", "low": 0, "high": 1e6, "transform": "log1p", "missing": "indicator"},
            {"kind": "date", "name": "seen", "low": "2000-01-01", "high": "2020-12-31", "missing": "indicator"},
            {"kind": "category", "name": "pain", "categories": ["a", "b"], "missing": "indicator", "other": "zero"},
            {"name": "gene_{1..3}", "low": -4, "high": 4, "missing": "centre"},
        ],
        "target": {"name": "ill", "kind": "binary", "positive": ["1"], "negative": ["0"]},
        "intercept": True,
    }
    rng, count = np.random.default_rng(4), 1500
    genes = rng.normal(0, 1, (count, 3))
    table = {
        "income": [None if place % 7 == 0 else float(each) for place, each in enumerate(rng.lognormal(8, 2, count))],
        "seen": [f"20{each:02d}-06-01" for each in rng.integers(0, 21, count)],
        "pain": [["a", "b", "NaN", "other"][each] for each in rng.integers(0, 4, count)],
        **{f"gene_{place + 1}": genes[:, place].tolist() for place in range(3)},
        "ill": (genes[:, 0] + rng.normal(0, 0.5, count) > 0).astype(int).tolist(),
    }
    result = Study(body, epsilon=3.0, algorithm=QUICK).simulate(table, seeds=1)
    assert result.quality["auc"].mean > 0.7
    result.save(tmp_path / "model.npz")
    again = study.load(tmp_path / "model.npz")
    assert again.schema.as_json()["features"][3]["name"] == "gene_{1..3}"
    np.testing.assert_array_equal(again.predict_proba(table), result.predict_proba(table))
