"""What a container asks a node."""

import os
import re
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
    (said,) = check_health(federation / "va")
    assert re.fullmatch(r"the loop turned \d s ago", said)
    os.utime(state / "party.lock", (0, time.time() - 1000))
    with pytest.raises(UnhealthyError, match=r"last turned 10\d\d s ago"):
        check_health(federation / "va")
