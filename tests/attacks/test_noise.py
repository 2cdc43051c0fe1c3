"""A server that lies in the sampler: bounded by the other one's own noise, and by nothing else."""

from pathlib import Path

import pytest

from deploy.attacks.kinds import Attack, removed
from deploy.attacks.noise import ATTACKS, GUARDS, OWN_NOISE, SEMI_HONEST, TAU, left_by_collapse, left_by_leak

EXPECTED = {"collapse": "bounded", "leak": "bounded", "collapse-malicious": "refused", "leak-malicious": "refused"}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_with_own_noise_it_learns_no_more_than_is_claimed(attack: Attack, tmp_path: Path) -> None:
    found = attack.attempt(tmp_path, ())
    assert found.outcome == EXPECTED[attack.id]
    assert isinstance(found.bound, float)
    assert isinstance(found.measured, float)
    assert found.measured > 0.95 * found.bound


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_without_own_noise_it_succeeds(attack: Attack, tmp_path: Path) -> None:
    assert attack.guards == tuple(guard.name for guard in GUARDS)
    with removed(OWN_NOISE):
        assert attack.attempt(tmp_path, GUARDS).outcome == "succeeds"


def test_the_joint_noise_alone_is_gone(tmp_path: Path) -> None:
    """As the study measured: 0.009 of a deviation is left of it, and 0.39 where it is read from the sum."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with removed(OWN_NOISE):
        collapsed, _ = left_by_collapse(tmp_path / "one", SEMI_HONEST)
        leaked, _ = left_by_leak(tmp_path / "two", SEMI_HONEST)
    assert 0.005 < collapsed < 0.015
    assert leaked < 0.45 < TAU
