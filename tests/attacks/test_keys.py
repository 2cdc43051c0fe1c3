"""Who vouches for keys: each attack is refused, and without any one of its guards it succeeds."""

from pathlib import Path

import pytest

from deploy.attacks.keys import ATTACKS, GUARDS
from deploy.attacks.kinds import Attack, removed


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_the_attack_is_refused(attack: Attack, tmp_path: Path) -> None:
    found = attack.attempt(tmp_path, ())
    assert found.outcome == "refused", found


@pytest.mark.parametrize(
    ("attack", "name"),
    [(attack, name) for attack in ATTACKS for name in attack.guards],
    ids=lambda each: str(each)[:40],
)
def test_without_its_guard_it_succeeds(attack: Attack, name: str, tmp_path: Path) -> None:
    guard = next(guard for guard in GUARDS if guard.name == name)
    with removed(guard):
        assert attack.attempt(tmp_path, (guard,)).outcome == "succeeds"


def test_every_guard_has_an_attack() -> None:
    assert {guard.name for guard in GUARDS} == {name for attack in ATTACKS for name in attack.guards}
