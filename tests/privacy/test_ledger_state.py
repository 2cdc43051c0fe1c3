"""What a ledger's entries amount to; an entry that this program would never have written stops the reading."""

from typing import Any

import pytest

from parley.privacy.chain import Entry
from parley.privacy.errors import LedgerCorruptError
from parley.privacy.ledger_state import State, replay
from tests.support.ledgers import BASIC

LEDGER = ("ledger", {"policy": {}, "layout": 2, "salt": "s", "before": ""})
WARD = ("population", {"name": "ward", "unit": None, "cap": {"epsilon": 4.0, "delta": 1e-3}, "identity": None})
RESERVE = ("reserve", {"run": "one", "population": "ward", "charge": BASIC.as_json(), "content": "c"})
RELEASE = ("release", {"run": "one", "round": 0, "digest": "d"})
SETTLE = ("settle", {"run": "one", "releases": 0, "evidence": "e"})


def replayed(*entries: tuple[str, dict[str, Any]]) -> State:
    state = State()
    for sequence, (kind, body) in enumerate(entries, 1):
        replay(state, Entry(sequence, kind, body, "d"))
    return state


def test_a_run_is_charged_when_it_is_reserved_and_by_what_it_released_when_it_is_settled() -> None:
    state = replayed(LEDGER, WARD, RESERVE)
    assert state.populations["ward"].spent.epsilon == BASIC.cost.epsilon > 0
    assert (state.runs["one"].content, state.runs["one"].ended) == ("c", False)
    state = replayed(LEDGER, WARD, RESERVE, RELEASE)
    assert state.runs["one"].recorded == {0: "d"}
    state = replayed(LEDGER, WARD, RESERVE, SETTLE)
    assert state.runs["one"].ended
    assert state.populations["ward"].spent.epsilon == 0


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([WARD], "of kind population where it cannot be"),
        ([LEDGER, LEDGER], "of kind ledger where it cannot be"),
        ([LEDGER, WARD, WARD], "registers a population again"),
        ([LEDGER, WARD, RESERVE, RESERVE], "admits a run that does not fit"),
        ([LEDGER, WARD, RESERVE, SETTLE, RELEASE], "goes on with a run that has ended"),
        ([LEDGER, WARD, RESERVE, SETTLE, SETTLE], "goes on with a run that has ended"),
        ([LEDGER, RESERVE], "makes no sense"),
        ([LEDGER, ("refund", {})], "has the unknown kind 'refund': upgrade parley"),
        ([("ledger", {"policy": {}, "layout": 3})], "the unknown layout 3: upgrade parley"),
    ],
)
def test_what_this_program_never_writes_is_not_read(entries: list[tuple[str, dict[str, Any]]], says: str) -> None:
    with pytest.raises(LedgerCorruptError, match=says):
        replayed(*entries)
