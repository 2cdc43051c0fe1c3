"""Scores."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from parley.learning.evaluation import area_under_curve


def test_area_under_the_curve_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    scores, targets = np.round(rng.normal(0, 1, 500), 1), rng.integers(0, 2, 500).astype(np.float64)
    assert area_under_curve(scores, targets) == pytest.approx(roc_auc_score(targets, scores))
