"""The attacks on what records are: none gets through, and each does where its guard is taken away."""

from pathlib import Path

import pytest

from deploy.attacks.kinds import Attack, removed
from deploy.attacks.records import ATTACKS, GUARDS

BY_NAME = {guard.name: guard for guard in GUARDS}
PAIRS = [(attack, name) for attack in ATTACKS for name in attack.guards]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_no_attack_succeeds(attack: Attack, tmp_path: Path) -> None:
    found = attack.attempt(tmp_path, ())
    assert found.outcome in ("refused", "bounded"), found


@pytest.mark.parametrize(("attack", "name"), PAIRS, ids=[f"{attack.id} without {name}" for attack, name in PAIRS])
def test_each_succeeds_without_its_guard(attack: Attack, name: str, tmp_path: Path) -> None:
    with removed(BY_NAME[name]):
        found = attack.attempt(tmp_path, (BY_NAME[name],))
    assert found.outcome == "succeeds", found


def test_every_guard_is_tried() -> None:
    assert {name for attack in ATTACKS for name in attack.guards} == set(BY_NAME)
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)
