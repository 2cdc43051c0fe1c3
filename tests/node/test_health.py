"""What a container asks a node."""

import os
import time
from pathlib import Path

import pytest

from parley.node.health import UnhealthyError, check_health


def test_a_party_is_healthy_while_its_loop_turns(federation: Path) -> None:
    state = federation / "va" / "state"
    with pytest.raises(UnhealthyError, match="has not been started"):
        check_health(federation / "va")
    state.mkdir()
    (state / "party.lock").touch()
    assert check_health(federation / "va") == ["the loop turned 0 s ago"]
    os.utime(state / "party.lock", (0, time.time() - 1000))
    with pytest.raises(UnhealthyError, match="last turned 1000 s ago"):
        check_health(federation / "va")
