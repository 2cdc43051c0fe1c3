"""What one lying server tries, with the guards in place and with each of them gone."""

from pathlib import Path

import pytest

from deploy.attacks.kinds import Attack, removed
from deploy.attacks.servers import ATTACKS, GUARDS

BY_NAME = {guard.name: guard for guard in GUARDS}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_a_lying_server_gains_nothing(attack: Attack, tmp_path: Path) -> None:
    found = attack.attempt(tmp_path, ())
    assert found.outcome in ("refused", "bounded"), found
    if found.outcome == "bounded":
        assert float(found.measured) <= float(found.bound), found


@pytest.mark.parametrize(
    ("attack", "guard"), [(attack, guard) for attack in ATTACKS for guard in attack.guards],
    ids=lambda each: each if isinstance(each, str) else each.id,
)  # fmt: skip
def test_without_its_guard_it_succeeds(attack: Attack, guard: str, tmp_path: Path) -> None:
    with removed(BY_NAME[guard]):
        found = attack.attempt(tmp_path, (BY_NAME[guard],))
    assert found.outcome == "succeeds", found


def test_every_guard_is_one_of_an_attack() -> None:
    assert {name for attack in ATTACKS for name in attack.guards} == set(BY_NAME)
