"""Protocols side by side share exchanges."""

from collections.abc import Generator
from typing import Any

import numpy as np

from parley.mpc.steps import Message, Steps, together


def test_protocols_side_by_side_share_exchanges() -> None:
    def speak(count: int, byte: int) -> Generator[Message, Message, int]:
        total = 0
        for _ in range(count):
            (answer,) = yield [np.full(3, byte, np.uint8)]
            total += int(answer.sum())
        return total

    def protocol(role: int) -> Steps[Any]:
        results = yield from together(speak(1, 1), speak(3, 10), speak(0, 0), speak(2, 100))
        return results

    lengths = []
    ends = [protocol(0), protocol(1)]
    messages = [next(end) for end in ends]
    try:
        while True:
            lengths.append([len(message) for message in messages])
            messages = [ends[0].send(messages[1]), ends[1].send(messages[0])]
    except StopIteration as stop:
        assert stop.value == [3, 90, 0, 600]
    assert lengths == [[3, 3], [2, 2], [1, 1]]
