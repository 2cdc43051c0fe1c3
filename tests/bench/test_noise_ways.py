"""What a way of making noise costs: the arithmetic, on batches that were never made."""

from typing import Any

import pytest

from parley.bench.noise_ways import Way, compared, over
from parley.mpc.errors import PeerError
from parley.mpc.parts import NoiseParts


def answer(cpu: float, audits: int = 0, made: int = 1000) -> dict[str, Any]:
    return {"cpu_seconds": cpu, "made": made, "sent": 1e6, "exchanges": 21, "audits": audits}


def covert(batches: list[list[dict[str, Any]]], audit: str = "1/4") -> Way:
    return Way(NoiseParts("covert", 0.5, audit), 1024, batches)


def test_audits_count_as_often_as_they_are_due_and_not_as_they_came() -> None:
    """4 s a batch and 2 s a replay, and chance has given twice as many as it should."""
    way = covert([[answer(4.0), answer(6.0, 1, 0)], [answer(6.0, 1, 0), answer(4.0)], [answer(4.0), answer(4.0)]])
    way.batches[0][0]["made"] = way.batches[1][1]["made"] = 0
    way.batches.append([answer(6.0, 1, 0), answer(4.0, 0, 0)])
    assert way.replay == pytest.approx(2)
    assert way.cpu_of_batches() == pytest.approx([4.5] * 4)
    assert way.made == pytest.approx(1000 * 9 / 16)
    figures = way.figures()
    assert figures["cpu_us_per_gaussian_per_server"] == pytest.approx(4.5e6 / 562.5)
    assert figures["cpu_us_as_it_came"] == pytest.approx((4 * 8 + 3 * 2) / 2 * 1e6 / 1000)
    assert figures["audits"] == 3


def test_a_ratio_is_gaussian_for_gaussian_and_says_how_sure_it_is() -> None:
    plain = Way(NoiseParts("semi-honest", 0.5), 1024, [[answer(3.0), answer(3.0)], [answer(1.0), answer(1.0)]])
    way = covert([[answer(4.5), answer(4.5)], [answer(1.5), answer(1.5)]])
    found = over(way, plain)
    assert found["cpu"] == pytest.approx(1.5 * 16 / 9)
    assert found["cpu_error"] == pytest.approx(0)  # the machine slowed both alike
    assert found["bytes"] == pytest.approx(16 / 9)


def test_where_every_batch_was_audited_nothing_was_measured() -> None:
    with pytest.raises(PeerError, match="every batch was audited"):
        _ = covert([[answer(1.0, 1, 0), answer(1.0, 0, 0)]]).made


def test_turns_go_on_until_there_was_an_audit() -> None:
    asked: list[Any] = []

    def run(**task: Any) -> list[dict[str, Any]]:
        asked.append(task)
        late = task["parts"][0] == "covert" and len(asked) > 4 * 40
        return [answer(2.0 + late, late, 0 if late else 1000), answer(2.0)]

    found = compared(run, NoiseParts("covert", 0.5, "1/8"), 2048, 5000, 0.0)
    assert found["rounds"] == 39
    assert [each["lanes"] for each in asked[:4]] == [8192, 2048, 2048, 5000]
    assert found["ways"][2]["audits"] == 1
