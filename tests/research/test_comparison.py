"""The models beside the federated one are the best of their kind, and are scored alike."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from parley.demo.heart_data import hold_out_file
from parley.demo.recipe import HOSPITALS, STUDY
from parley.learning.records import Records, load
from parley.research.comparison import Comparison, Score, compare, dense, fit_logistic
from parley.study.errors import StudyError


@pytest.fixture(scope="module")
def hospitals() -> dict[str, Records]:
    return {hospital.name: load([hospital.data_file], STUDY.schema) for hospital in HOSPITALS}


@pytest.fixture(scope="module")
def hold_out() -> Records:
    return load([hold_out_file()], STUDY.schema)


def test_the_fit_is_scikit_learns(hospitals: dict[str, Records]) -> None:
    for records in hospitals.values():
        rows, targets = dense(records), records.targets
        oracle = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(rows, targets)
        assert fit_logistic(rows, targets) == pytest.approx(oracle.coef_[0], abs=1e-5)


def test_separable_and_one_sided_records_still_have_a_fit() -> None:
    rows = np.array([[1.0, 1.0], [-1.0, 1.0], [2.0, 1.0]])
    for targets in (np.array([1.0, 0.0, 1.0]), np.ones(3)):
        theta = fit_logistic(rows, targets)
        assert np.isfinite(theta).all()
        assert (((rows @ theta) > 0) == (targets > 0.5)).all()


def test_the_pooled_model_beats_the_zero_model_and_scores_are_the_usual_ones(
    hospitals: dict[str, Records], hold_out: Records
) -> None:
    theta = np.linspace(-1, 1, hold_out.rows.dimension)
    found = compare(theta, hospitals, hold_out)
    assert [each.name for each in found.alone] == list(STUDY.parties)
    assert [each.records for each in found.alone] == list(STUDY.parties.values())
    assert found.federated.records == found.pooled.records == 690
    assert found.hold_out == 230
    scores = dense(hold_out) @ theta
    assert found.auc == pytest.approx(roc_auc_score(hold_out.targets, scores))
    assert found.accuracy == pytest.approx(((scores > 0) == (hold_out.targets > 0.5)).mean())
    assert found.pooled_auc > 0.88
    assert found.pooled_auc > max(each.auc for each in found.alone)
    assert min(each.auc for each in found.alone) > 0.7


def test_the_json_has_the_promised_fields() -> None:
    one = Score("x", 10, 0.8, 0.9)
    body = Comparison(one, (one,), Score("pooled", 10, 0.85, 0.95), 5).as_json()
    assert (body["accuracy"], body["auc"], body["pooled_auc"]) == (0.8, 0.9, 0.95)
    assert body["alone"] == [{"party": "x", "accuracy": 0.8, "auc": 0.9}]


def test_what_cannot_be_compared_is_refused(hospitals: dict[str, Records], hold_out: Records) -> None:
    with pytest.raises(StudyError, match="3 parameters"):
        compare(np.zeros(3), hospitals, hold_out)
    healthy = hold_out.select(np.flatnonzero(hold_out.targets == 0))
    with pytest.raises(StudyError, match="one outcome"):
        compare(np.zeros(hold_out.rows.dimension), hospitals, healthy)
    with pytest.raises(StudyError, match="too large"):
        fit_logistic(np.zeros((1, 5000)), np.zeros(1))


def test_a_fit_that_rounding_stops_short_of_its_tolerance_is_a_fit() -> None:
    """About one of eighty of these went round in circles in its last digit until it was given up."""
    rng = np.random.default_rng(1)
    for _ in range(400):
        records, columns = int(rng.integers(60, 900)), int(rng.integers(3, 15))
        rows = rng.uniform(-1, 1, (records, columns)) * rng.choice([1, 0.1, 0.01, 0.001], columns)
        rows[:, -1] = 1
        targets = (rng.random(records) < rng.uniform(0.05, 0.6)).astype(np.float64)
        if rng.random() < 0.25:
            targets = (rows[:, 0] > 0).astype(np.float64)
        theta = fit_logistic(rows, targets)
        p = 1 / (1 + np.exp(-rows @ theta))
        assert np.abs(rows.T @ (p - targets) / records + theta / records).max() < 1e-7
