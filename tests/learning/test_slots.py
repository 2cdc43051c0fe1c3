"""An answer leaves at the end of a slot, whatever it took."""

import threading
import time

import pytest

from parley.learning.slots import CALM, MARGIN, SHORTEST_SECONDS, Slots


@pytest.mark.parametrize(("taken", "slots_after"), [(0.0, 1), (0.02, 1), (0.07, 2), (0.11, 4)])
def test_an_answer_that_is_late_leaves_at_a_longer_slot_which_stays(taken: float, slots_after: int) -> None:
    slots = Slots(threading.Event())
    slots.measured("form", 0.001)
    slots.measured("other", 0.06)
    assert slots.seconds == {"form": SHORTEST_SECONDS, "other": pytest.approx(3 * SHORTEST_SECONDS)}
    began = time.monotonic() - taken
    assert slots.wait("form", began)
    assert time.monotonic() - began >= slots_after * SHORTEST_SECONDS
    assert slots.slot("form") >= slots_after * SHORTEST_SECONDS
    assert slots.slot("other") / slots.slot("form") == pytest.approx(3)


def test_what_a_lost_machine_takes_leaves_the_slot_as_it_is() -> None:
    slots = Slots(threading.Event())
    slots.measured("form", 0.001)
    began = time.monotonic() - 0.11
    assert slots.wait("form", began, lost=True)
    assert time.monotonic() - began >= 3 * SHORTEST_SECONDS
    assert slots.slot("form") == SHORTEST_SECONDS


def test_what_was_late_is_halved_again_after_fifty_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)  # no answer is late but the one that is to be
    slots = Slots(threading.Event())
    slots.measured("form", 0.001)
    slots.stop.set()  # nobody waits
    slots.wait("form", time.monotonic() - 3.5 * SHORTEST_SECONDS)
    found = []
    for _ in range(3 * CALM):
        found.append(round(slots.slot("form") / SHORTEST_SECONDS))
        slots.wait("form", time.monotonic())
    assert [found[place * CALM] for place in range(3)] == [4, 2, 1]
    assert found == sorted(found, reverse=True)


def test_a_slot_is_longer_than_what_was_measured() -> None:
    slots = Slots(threading.Event())
    slots.measured("form", 1.01)
    assert slots.seconds["form"] >= MARGIN * 1.01
    assert slots.seconds["form"] / SHORTEST_SECONDS == pytest.approx(round(slots.seconds["form"] / SHORTEST_SECONDS))


def test_a_slot_has_room_for_what_a_record_may_add() -> None:
    slots = Slots(threading.Event())
    slots.measured("form", 1.0, 2.25)
    assert slots.seconds["form"] == pytest.approx(MARGIN + 2.25)


def test_a_process_that_is_to_end_does_not_wait() -> None:
    slots = Slots(threading.Event())
    slots.measured("form", 1000.0)
    slots.stop.set()
    assert not slots.wait("form", time.monotonic())
