"""Approximate minima."""

import numpy as np

from parley.learning.models import Linear, Logistic
from parley.research.central.method import Target
from parley.research.central.minima import MinimaPerturbation
from parley.research.central.noise import gaussian_delta
from parley.research.central.objective import ObjectivePerturbation, minimise, shortened
from tests.support.central import D, N, records


def test_amp_pays_for_the_distance_to_the_minimum() -> None:
    """γ/μ bounds the distance, and the second noise covers twice that at its share of ε and δ."""
    data, model = records(), Linear(D, Logistic())
    target, rows = Target(N, D, 1.0, 1e-5, 1.75, 1.75**2 / 4, 1.75), shortened(data, 1.75)
    for gamma in (1e-2, 1e-4):
        method = MinimaPerturbation(gradient_norm=gamma, output_share=0.1)
        penalty = method.penalty(method.parts(target)[0])
        exact, _ = minimise(rows, data.targets, model, penalty, np.zeros(D), 0.0)
        near, _ = minimise(rows, data.targets, model, penalty, np.zeros(D), gamma)
        assert np.linalg.norm(near - exact) <= gamma / penalty
        ratio = 2 * gamma / penalty / method.output_deviation(target)
        assert gaussian_delta(0.1, ratio) <= 1e-6
    assert MinimaPerturbation().noise_scale(target) > ObjectivePerturbation().noise_scale(target)
