"""A server that lies in the sampler, by how much of the noise it leaves; and both ways, as every attack."""

from pathlib import Path

from parley.attacks.kinds import Attack, removed
from parley.attacks.noise import OWN_NOISE, SEMI_HONEST, TAU, left_by_collapse, left_by_leak
from tests.support.attacks import gains_nothing, guarded, succeeds, unguarded


@guarded("noise")
def test_with_its_guards_an_attack_gains_nothing_beyond_what_is_allowed(attack: Attack) -> None:
    gains_nothing(attack)


@unguarded("noise")
def test_without_any_one_of_its_guards_it_succeeds(attack: Attack, guard: str) -> None:
    succeeds(attack, guard)


def test_the_joint_noise_alone_is_gone(tmp_path: Path) -> None:
    """As the study measured: 0.009 of a deviation is left of it, and 0.39 where it is read from the sum."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with removed(OWN_NOISE):
        collapsed, _ = left_by_collapse(tmp_path / "one", SEMI_HONEST)
        leaked, _ = left_by_leak(tmp_path / "two", SEMI_HONEST)
    assert 0.005 < collapsed < 0.015
    assert leaked < 0.45 < TAU
