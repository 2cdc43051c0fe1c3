"""Shared by the tests of `privacy`: a small mechanism."""

import pytest

from parley.privacy.clipping import MomentumClip
from parley.privacy.mechanism import Cohort, Mechanism
from parley.privacy.sampling import FixedSize


@pytest.fixture
def mechanism() -> Mechanism:
    """DDP-SRM at two parties of different sizes, 21 releases."""
    cohorts = (Cohort("north", FixedSize(1000, 50)), Cohort("south", FixedSize(200, 20)))
    return Mechanism(cohorts, MomentumClip(1.0, 0.02, 0.4), 4.0, 20)
