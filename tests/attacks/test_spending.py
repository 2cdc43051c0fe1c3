"""What was spent is never forgotten: every attack with its guards in place, and with each of them gone."""

from pathlib import Path

import pytest

from deploy.attacks.kinds import Attack, removed
from deploy.attacks.spending import ATTACKS, GUARDS

BY_NAME = {guard.name: guard for guard in GUARDS}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_with_its_guards_it_gains_nothing(attack: Attack, tmp_path: Path) -> None:
    found = attack.attempt(tmp_path, ())
    assert found.outcome in ("refused", "bounded"), found


@pytest.mark.parametrize(
    ("attack", "name"),
    [pytest.param(attack, name, id=f"{attack.id}-{name}") for attack in ATTACKS for name in attack.guards],
)
def test_without_any_one_of_its_guards_it_succeeds(attack: Attack, name: str, tmp_path: Path) -> None:
    guard = BY_NAME[name]
    with removed(guard):
        found = attack.attempt(tmp_path, (guard,))
    assert found.outcome == "succeeds", found


def test_every_guard_stands_against_some_attack() -> None:
    assert set(BY_NAME) == {name for attack in ATTACKS for name in attack.guards}
