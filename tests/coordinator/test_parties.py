"""Long polls: a change is never slept through, however it falls beside the look for it."""

import asyncio
import time

import pytest

from parley.coordinator.parties import _until
from tests.support.until import GIVE_UP_SECONDS

LONG_SECONDS = 3600.0


def test_a_change_while_the_condition_is_held_is_seen_at_once() -> None:
    """Whoever waits has to look again once it holds the condition: the news may have come and gone before."""

    async def both() -> bool:
        condition = asyncio.Condition()
        there: list[int] = []
        began = time.monotonic()
        async with condition:
            waiting = asyncio.ensure_future(_until(condition, began + LONG_SECONDS, lambda: bool(there)))
            await asyncio.sleep(0.05)  # it has begun, and waits for the condition
            there.append(1)
            condition.notify_all()  # nobody hears that
        return await asyncio.wait_for(waiting, GIVE_UP_SECONDS)  # an hour, where the news was slept through

    assert asyncio.run(both())


def test_a_poll_that_is_cut_off_twice_lets_go_of_nothing_that_another_holds() -> None:
    """As a server does that stops while its callers wait."""

    async def cut() -> list[BaseException | bool]:
        condition = asyncio.Condition()
        waiting = [asyncio.ensure_future(_until(condition, time.monotonic() + 30, lambda: False)) for _ in range(3)]
        await asyncio.sleep(0.05)
        async with condition:
            for _ in range(2):
                for each in waiting:
                    each.cancel()
                await asyncio.sleep(0)
            assert condition.locked()
        return await asyncio.gather(*waiting, return_exceptions=True)

    assert {type(each) for each in asyncio.run(cut())} == {asyncio.CancelledError}


@pytest.mark.parametrize("wait_seconds", [0.0, 0.1])
def test_time_up_gives_what_is_there_then(wait_seconds: float) -> None:
    async def alone() -> bool:
        return await _until(asyncio.Condition(), time.monotonic() + wait_seconds, lambda: False)

    assert asyncio.run(alone()) is False
