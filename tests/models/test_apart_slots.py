"""When answers of a process with a module leave."""

import pytest

from parley.learning.slots import CALM
from parley.models.apart import MARGIN, SHORTEST_SLOT, Slots


def test_slots_are_doubled_by_what_was_late_and_stay_so_for_fifty_answers() -> None:
    slots = Slots(64, 0.01)
    slot = slots.slot(65, 2)
    assert slot == pytest.approx((MARGIN * 2 + 2 * 6 + 2) * 2 * 0.01)
    assert slots.slot(64, 2) < slot < slots.slot(129, 2)
    assert slots.slot(1, 1) == slots.slot(64, 1)
    assert Slots(64, 1e-6).slot(1, 1) == SHORTEST_SLOT
    assert [slots.pace.leaves(slot, took) / slot for took in (0.0, slot, 2.5 * slot, 0.0, 4.1 * slot)] == [
        1,
        1,
        4,
        4,
        8,
    ]
    after = [slots.pace.leaves(slot, 0.0) / slot for _ in range(4 * CALM)]
    assert after[: CALM - 6] == [8] * (CALM - 6)
    assert [after[CALM - 6 + place * CALM] for place in range(4)] == [4, 2, 1, 1]
