"""A coordinator that adds fields to its words, or to a server's, ends, charges and settles nothing at a party."""

import numpy as np
import pytest

from parley.party.outbox import JOINED, Outbox
from parley.v1 import coordinator_pb2
from tests.support.documents import manifest
from tests.support.party_process import EVERYONE, Running, ledger
from tests.support.stage import Stage, question
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")
MORE = b"\xc0\x3e\x07"
"""Field 1000, a number."""
State = coordinator_pb2.NextRoundResponse


def made_newer(stage: Stage, where: str) -> None:
    """What the coordinator says now, with a field more: in its own message, or in a word that a server has signed."""
    said = State.FromString(stage.coordinator.current.SerializeToString())
    if where == "message":
        said = State.FromString(said.SerializeToString() + MORE)
    else:
        said.ends[0].ParseFromString(said.ends[0].SerializeToString() + MORE)
    stage.coordinator.say(said)


def asked_again(stage: Stage, times: int = 3) -> None:
    before = len(stage.coordinator.requests)
    until(lambda: len(stage.coordinator.requests) >= before + times)


def state_of(stage: Stage, digest: bytes) -> str:
    outbox = Outbox(stage.node / "state" / "outbox.sqlite")
    try:
        return next(run.state for run in outbox.runs() if run.digest == digest)
    finally:
        outbox.close()


@pytest.mark.slow
def test_a_coordinator_s_additions_are_waited_out(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        with stage.coordinator.changed:
            stage.coordinator.ask(question(made, 0, (np.zeros(3),)))
            made_newer(stage, "message")
        asked_again(stage)
        assert made.run not in ledger(stage).runs  # nothing is charged
        assert not stage.a.payloads
        stage.coordinator.ask(question(made, 0, (np.zeros(3),)))
        stage.opened(0)
        for where in ("message", "word"):
            with stage.coordinator.changed:
                stage.finish(stage.ends(made, 1))
                made_newer(stage, where)
            asked_again(stage)
            assert not ledger(stage).runs[made.run].ended  # nothing is settled
            assert state_of(stage, made.digest) == JOINED  # and nothing is left
        assert all(join.accepted for join in stage.coordinator.joins)
        stage.finish(stage.ends(made, 1))
        until(lambda: ledger(stage).runs[made.run].ended)
