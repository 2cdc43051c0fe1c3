"""Every attack on a contribution comes to nothing, and to its aim once the guard that it meets is taken away."""

from pathlib import Path

import pytest

from deploy.attacks.contribution import ATTACKS, GUARDS
from deploy.attacks.kinds import Attack, removed

BY_NAME = {guard.name: guard for guard in GUARDS}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_an_attack_is_stopped(attack: Attack, tmp_path: Path) -> None:
    found = attack.attempt(tmp_path, ())
    assert found.outcome in ("refused", "bounded"), found


@pytest.mark.parametrize(("attack", "guard"), [(each, guard) for each in ATTACKS for guard in each.guards],
                         ids=lambda each: each.id if isinstance(each, Attack) else each)  # fmt: skip
def test_it_is_stopped_by_its_guard(attack: Attack, guard: str, tmp_path: Path) -> None:
    with removed(BY_NAME[guard]):
        found = attack.attempt(tmp_path, (BY_NAME[guard],))
    assert found.outcome == "succeeds", found


def test_every_guard_stops_something() -> None:
    assert {guard for attack in ATTACKS for guard in attack.guards} == set(BY_NAME)
