"""scikit-learn's own tests of estimators, and what is private about these: bounds, labels, noise, the cost of fits."""

import json
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.utils import estimator_checks

from parley.errors import ParleyError
from parley.learning.columns import Uniform
from parley.study import load
from parley.study.estimators import NotFittedError, PrivateClassifier, PrivateRegressor
from parley.study.surroundings import BoundsWarning, PrivacyWarning
from tests.docs.pages import Page

ROOT = Path(__file__).parents[2]
TRIES = 20
"""Of a check that fails by chance alone: it passes with a chance below a half, so all of them with less than 1e-6."""
ESTIMATORS: dict[str, Any] = {
    "PrivateClassifier": PrivateClassifier(12.0, bounds=(-4, 4), classes="from y"),
    "PrivateRegressor": PrivateRegressor(12.0, bounds=(-4, 4), target_bounds=(-4, 4)),
}
TWO_FITS = "it holds two fits against each other, and their noise differs"
EXPECTED = {
    "PrivateClassifier": {
        "check_classifier_data_not_an_array": TWO_FITS,
        "check_fit_idempotent": TWO_FITS,
        "check_supervised_y_2d": TWO_FITS,
    },
    "PrivateRegressor": {
        "check_fit_idempotent": TWO_FITS,
        "check_regressor_data_not_an_array": TWO_FITS,
        "check_regressors_int": TWO_FITS,
        "check_supervised_y_2d": TWO_FITS,
    },
}
"""Each with its reason, as docs/estimators.md has them."""
X, Y = make_blobs(300, centers=[[-1, -1], [1, 1]], cluster_std=0.7, random_state=0)


def classifier(**more: Any) -> PrivateClassifier:
    return PrivateClassifier(**{"epsilon": 5.0, "bounds": (-4, 4), "classes": [0, 1], **more})


def checks(name: str) -> Iterator[tuple[str, Callable[[], None]]]:
    for estimator, check in estimator_checks.estimator_checks_generator(ESTIMATORS[name]):
        yield estimator_checks._check_name(check), partial(check, estimator)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_pass_but_for_those_that_compare_two_fits(name: str) -> None:
    found = estimator_checks.check_estimator(ESTIMATORS[name], on_fail=None, expected_failed_checks=EXPECTED[name])
    assert {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"} == {}
    assert EXPECTED[name].keys() <= {each["check_name"] for each in found}
    assert len(EXPECTED[name]) <= 6
    ran = [each for each in found if each["status"] in ("passed", "xfail")]
    assert len(ran) >= len(found) - 2, [each["check_name"] for each in found if each["status"] == "skipped"]


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_a_check_that_is_expected_to_fail_does_and_for_its_reason_alone(name: str) -> None:
    for check_name, run in checks(name):
        if check_name not in EXPECTED[name]:
            continue
        for _ in range(TRIES):
            try:
                run()
            except AssertionError as error:
                assert "Not equal to tolerance" in str(error), error
                break
        else:
            pytest.fail(f"{check_name} passes: take it from the list")


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_scikit_learn_checks_of_its_own_estimators_alone_holds_too(name: str) -> None:
    """The first is no part of check_estimator, the others are left out of it for what draws random numbers."""
    estimator_checks.check_dataframe_column_names_consistency(name, ESTIMATORS[name])
    estimator_checks.check_methods_sample_order_invariance(name, ESTIMATORS[name])
    estimator_checks.check_methods_subset_invariance(name, ESTIMATORS[name])


def test_the_docs_name_every_expected_failure_with_its_reason() -> None:
    page = (ROOT / "docs/estimators.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `check_")]
    listed = {line.split("`")[1]: line for line in rows}
    assert listed.keys() == {check for found in EXPECTED.values() for check in found}
    for name, found in EXPECTED.items():
        for check in found:
            assert name in listed[check], check


def test_a_model_is_fitted_asked_and_scored() -> None:
    model = classifier().fit(X, Y)
    assert (model.n_features_in_, model.classes_.tolist()) == (2, [0, 1])
    chances = model.predict_proba(X)
    assert chances.sum(axis=1) == pytest.approx(1)
    assert model.predict(X).tolist() == (model.decision_function(X) > 0).astype(int).tolist()
    assert model.score(X, Y) > 0.9
    assert 0 < model.privacy_.epsilon <= 5
    assert model.privacy_.delta == 1e-5
    assert "5" in model.privacy_.sentence
    assert "saw the records" in str(model.privacy_)


def test_labels_are_declared_and_come_back_as_they_were() -> None:
    for labels in ([False, True], ["no", "yes"], [-1, 1], [10, 20], np.array([3, 4])):
        names = np.array(sorted(labels))[Y]
        model = classifier(classes=labels).fit(X, names)
        assert model.classes_.tolist() == sorted(labels)
        assert set(model.predict(X).tolist()) <= set(names.tolist())
        assert (model.predict(X) == names).mean() > 0.8
    assert classifier().fit(X, Y == 1).classes_.tolist() == [0, 1]
    three = classifier(classes=["a", "b", "c"]).fit(X, np.array(["a", "c"])[Y])
    assert three.predict_proba(X).shape == (300, 3)
    assert three.decision_function(X).shape == (300, 3)
    with pytest.raises(ValueError, match="classes is missing: list the labels"):
        classifier(classes=None).fit(X, Y)
    with pytest.raises(ValueError, match="row 1, which classes does not list"):
        classifier(classes=[7, 8]).fit(X, Y)
    for few in ([1], [], "from y"):
        with pytest.raises(ValueError, match="give two or more"):
            classifier(classes=few).fit(X, np.ones(300))
    with pytest.raises(ValueError, match="give a list of labels"):
        classifier(classes="all").fit(X, Y)
    with pytest.raises(ValueError, match="several kinds"):
        classifier(classes=[1, "one"]).fit(X, Y)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        classifier(classes="from y").fit(X, X[:, 0])


def test_without_bounds_a_fit_says_what_is_missing_and_takes_none_from_the_records() -> None:
    with pytest.raises(ValueError, match="bounds and schema are both missing: give one of them"):
        classifier(bounds=None).fit(X, Y)
    with pytest.raises(ValueError, match="both there"):
        classifier(schema=[{"name": "a", "low": 0, "high": 1}]).fit(X, Y)
    with pytest.raises(ValueError, match="target_bounds is missing"):
        PrivateRegressor(bounds=(-4, 4)).fit(X, Y)
    with pytest.raises(ValueError, match="target_bounds: low 5 is not below high 2"):
        PrivateRegressor(bounds=(-4, 4), target_bounds=(5, 2)).fit(X, Y)
    with pytest.raises(ValueError, match="bounds: low has the shape"):
        classifier(bounds=([1, 2, 3], [4, 5, 6])).fit(X, Y)
    with pytest.raises(ParleyError, match="epsilon is 0: give a number above 0"):
        classifier(epsilon=0).fit(X, Y)
    assert not hasattr(classifier(), "privacy_")


def test_the_bounds_and_not_the_records_decide_what_a_value_becomes() -> None:
    """Two sets of records that differ within their bounds, at will, give models with the same description."""
    one, other = classifier().fit(X, Y), classifier().fit(X * 0.01, 1 - Y)
    assert one.to_model().description == other.to_model().description
    named = classifier(bounds={"a": (-4, 4), "b": (-5, 5)}).fit(pandas.DataFrame(X, columns=["a", "b"]), Y)
    assert [(each.name, each.low, each.high) for each in named.to_model().schema.features] == [  # type: ignore[union-attr]
        ("a", -4, 4),
        ("b", -5, 5),
    ]
    assert isinstance(one.to_model().schema.features, Uniform)
    with pytest.warns(BoundsWarning, match=r"features: \d\d% of the values"):
        classifier(bounds=(-1, 1)).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = np.concatenate([X, np.zeros((300, 98))], axis=1)  # 1 % of all values is not 5 % of the records
        classifier(bounds=(-1, 1)).fit(wide, Y)
    with pytest.warns(BoundsWarning, match=r"x0: \d\d% of the values lie outside .* for you alone"):
        classifier(bounds=([-0.1, -4], [0.1, 4])).fit(X, Y)


def test_noise_and_batches_are_fresh_whatever_is_seeded() -> None:
    seen = set()
    for _ in range(3):
        np.random.seed(0)
        seen.add(classifier().fit(X, Y).to_model().theta.tobytes())
    assert len(seen) == 3
    assert "random_state" not in classifier().get_params()
    with pytest.raises(TypeError, match="random_state"):
        PrivateClassifier(random_state=0)  # type: ignore[call-arg]


def test_delta_follows_from_the_number_of_records_alone() -> None:
    many = np.tile(X, (50, 1)), np.tile(Y, 50)
    assert classifier().fit(*many).privacy_.delta == pytest.approx(0.1 / 15_000)
    assert classifier(delta=1e-6).fit(X, Y).privacy_.delta == 1e-6


def test_a_frame_with_categories_and_gaps_needs_a_schema() -> None:
    schema = [
        {"name": "age", "low": 0, "high": 100, "missing": "centre"},
        {"kind": "category", "name": "sex", "categories": ["f", "m"], "missing": "zero"},
    ]
    age = [20.0, None, 70.0, 90.0] * 50
    sex = ["f", "m", None, "m"] * 50
    sick = [False, False, True, True] * 50
    frame = pandas.DataFrame({"id": range(200), "age": age, "sex": sex})
    model = classifier(bounds=None, schema=schema, classes=[False, True]).fit(frame, sick)
    assert model.feature_names_in_.tolist() == ["age", "sex"]
    assert model.n_features_in_ == 2
    wanted = model.predict_proba(frame)
    for same in (polars.from_pandas(frame), frame[["sex", "age"]], {"age": age, "sex": sex}, frame.to_dict("records")):
        assert model.predict_proba(same) == pytest.approx(wanted)
    with pytest.raises(ValueError, match="no column 'sex' in the data: it has id, age, gender"):
        model.predict(frame.rename(columns={"sex": "gender"}))
    with pytest.raises(ValueError, match="'x', which the schema does not list"):
        model.predict({"age": [1], "sex": ["x"]})
    with pytest.raises(ValueError, match=r"Input X contains NaN \(row 2, column 1\): give schema="):
        classifier().fit(frame[["age"]].astype(float), sick)
    with pytest.raises(ValueError, match="column sex holds what is no number: give schema="):
        classifier().fit(frame, sick)


def test_all_rows_of_a_patient_are_protected_together_where_the_schema_says_whose_they_are(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(
        'unit = "patient"\nrecords_per_unit = 2\nfeatures = [{ name = "age", low = 0, high = 100 }]\n'
    )
    frame = {"patient": [f"p{row // 2}" for row in range(200)], "age": [20, 90] * 100}
    model = classifier(bounds=None, schema=tmp_path / "schema.toml").fit(frame, [0, 1] * 100)
    assert model.to_model().card["parties"] == {"site": 100}
    assert "patient" in model.privacy_.sentence
    again = classifier(bounds=None, schema=tmp_path / "schema.toml").fit({**frame, "age": [30, 80] * 100}, [0, 1] * 100)
    assert again.privacy_.total.fits == 2


def test_the_model_file_is_the_usual_one_and_says_that_whoever_fits_sees_everything(tmp_path: Path) -> None:
    model = classifier().fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save(tmp_path / "model.npz")
    read = load(tmp_path / "model.npz")
    assert read.predict_proba(X) == pytest.approx(model.predict_proba(X))
    assert read.card == json.loads((tmp_path / "card.json").read_text())
    assert read.card["statement"].startswith(model.privacy_.sentence)
    assert "whoever ran the training saw the records" in read.card["statement"]
    assert (read.card["epsilon"], read.card["delta"]) == (model.privacy_.epsilon, model.privacy_.delta)
    assert (read.card["manifest_digest"], read.card["aggregators"], read.card["evaluation"]) == (None, [], None)


def test_what_leaves_the_machine_tells_of_no_record() -> None:
    """Neither in a card nor in a pickle: how many earlier fits shared a record depends on records."""
    own = np.random.default_rng(1).uniform(-4, 4, (100, 2))
    labels = (own[:, 0] > 0).astype(int)
    fresh, shared = classifier().fit(own + 1e-3, labels), classifier().fit(own, labels)
    shared = classifier().fit(own, labels)
    assert (fresh.privacy_.total.fits, shared.privacy_.total.fits) == (1, 2)
    assert fresh.to_model().card["fits"] == shared.to_model().card["fits"] >= 3
    copies = [pickle.loads(pickle.dumps(each)) for each in (fresh, shared)]
    assert copies[0].privacy_.total == copies[1].privacy_.total
    text = pickle.dumps(shared)
    assert not any(row.tobytes() in text for row in own)
    assert not any(record in text for record in shared.privacy_._records or ())


def test_a_copy_answers_as_the_original() -> None:
    model = PrivateRegressor(5.0, bounds=(-4, 4), target_bounds=(0, 1)).fit(X, Y)
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == model.predict(X).tolist()
    with pytest.raises(NotFittedError):
        clone(model).predict(X)
    assert model.score(X, Y) > 0.5
    assert model.to_model().predict(X) == pytest.approx(model.predict(X))


def test_what_was_fitted_before_a_refused_fit_still_answers() -> None:
    model = classifier().fit(X, Y)
    before = model.predict_proba(X), model.privacy_
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.fit(X[:, 0], Y)
    with pytest.raises(ValueError, match="which classes does not list"):
        model.fit(X[:, :1], Y + 5)
    assert model.predict_proba(X).tolist() == before[0].tolist()
    assert model.privacy_ is before[1]
    assert model.n_features_in_ == 2


def test_models_of_every_kind_are_fitted() -> None:
    hinge = classifier(model="smoothed-hinge").fit(X, Y)
    assert hinge.score(X, Y) > 0.8
    with pytest.raises(AttributeError, match="no probabilities"):
        hinge.predict_proba(X)
    layers = {"kind": "perceptron", "hidden": [4]}
    assert classifier(model=layers, algorithm={"name": "dp-sgd", "passes": 2, "batch": 50}).fit(X, Y).score(X, Y) > 0
    assert PrivateRegressor(5.0, bounds=(-4, 4), target_bounds=(0, 1), model="huber").fit(X, Y).predict(X).shape == (
        300,
    )
    with pytest.raises(ValueError, match="kind"):
        classifier(model="forest").fit(X, Y)
    with pytest.raises(ValueError, match="no algorithm"):
        classifier(algorithm="adam").fit(X, Y)


@pytest.mark.slow
def test_the_folds_of_a_cross_validation_count_and_the_worst_record_is_what_is_said() -> None:
    own = np.random.default_rng(2).uniform(-4, 4, (90, 2))
    labels = (own[:, 0] > 0).astype(int)
    with pytest.warns(PrivacyWarning, match=r"fitted more than once \(cross-validation or a search\)"):
        cross_val_score(classifier(epsilon=1.0), own, labels, cv=KFold(3))
    model = classifier(epsilon=1.0).fit(own, labels)
    total = model.privacy_.total
    assert total.fits == 3  # two of three folds, and this one
    assert total.epsilon == pytest.approx(3 * model.privacy_.epsilon, rel=1e-3)
    assert total.delta == pytest.approx(3e-5)
    assert "3 fits of these records" in str(model.privacy_)
    before = model.privacy_.total
    classifier(epsilon=1.0).fit(own[:1].repeat(2, axis=0), [0, 1])
    assert model.privacy_.total.fits == before.fits + 1, "a total is of now, and of the record that is most exposed"
    with pytest.warns(PrivacyWarning, match="fitted more than once"):
        GridSearchCV(classifier(), {"epsilon": np.array([1, 2])}, cv=2).fit(own, labels)


@pytest.mark.slow
def test_workers_warn_too_and_say_that_they_do_not_see_each_other() -> None:
    program = (
        "import numpy as np\n"
        "from sklearn.model_selection import cross_val_score\n"
        "from parley.study.estimators import PrivateClassifier\n"
        "X = np.random.default_rng(0).uniform(-1, 1, (40, 2))\n"
        "y = (X[:, 0] > 0).astype(int)\n"
        "if __name__ == '__main__':\n"
        "    cross_val_score(PrivateClassifier(bounds=(-1, 1), classes=[0, 1]), X, y, cv=2, n_jobs=2)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "PrivacyWarning: these records are fitted more than once" in done.stderr
    assert "with n_jobs it cannot see those of other processes" in done.stderr


def learnt(estimator: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        estimator.fit(X, Y)
    return [str(each.message) for each in seen if "learnt from the same records" in str(each.message)]


def test_a_step_that_learnt_from_the_records_is_named_and_one_that_did_not_is_not() -> None:
    assert learnt(make_pipeline(StandardScaler(), classifier()))[0].startswith("StandardScaler learnt")
    assert learnt(Pipeline([("deep", make_pipeline(StandardScaler(), Normalizer())), ("model", classifier())]))
    assert learnt(make_pipeline(make_column_transformer((StandardScaler(), [0, 1])), classifier()))
    regressor = PrivateRegressor(5.0, bounds=(-4, 4), target_bounds=(-4, 4))
    assert learnt(TransformedTargetRegressor(regressor, transformer=StandardScaler()))
    for steps in ([FunctionTransformer(np.tanh)], [Normalizer(), "passthrough"], []):
        assert learnt(make_pipeline(*steps, classifier())) == []


def test_a_warning_stands_at_the_users_own_line() -> None:
    with pytest.warns(PrivacyWarning) as seen:
        make_pipeline(StandardScaler(), classifier()).fit(X, Y)
    assert {each.filename for each in seen} == {__file__}


@pytest.mark.slow
def test_the_programs_of_the_page_run(tmp_path: Path) -> None:
    """In a process of their own, for they print what all its fits cost."""
    for file in (ROOT / "deploy/parley/demo/data/heart_disease").glob("*.csv"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    program = "\n".join(Page(ROOT / "docs/estimators.md").code_blocks)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Total(fits=7, epsilon=6.99" in done.stdout, done.stderr
    assert "PrivacyWarning: these records are fitted more than once" in done.stderr
    assert (tmp_path / "model.npz").is_file()
