"""What a hostile coordinator cannot do to a party's machine: spin it, fill memory or disk, or end its process."""

import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from parley.federation.errors import ManifestError
from parley.federation.manifest import HEADER
from parley.party.client import MOST_KNOWN
from parley.party.outbox import MOST_REFUSED, REFUSED, Outbox
from parley.v1 import common_pb2
from tests.party.test_admission import refusal, states
from tests.support.documents import manifest
from tests.support.party_process import EVERYONE, Running, charged, ledger
from tests.support.stage import LEAD, Stage, State
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")


@pytest.mark.parametrize("state", [State.STATE_WAIT, State.STATE_UNSPECIFIED, 77], ids=["wait", "none", "unknown"])
def test_a_coordinator_that_lets_nobody_wait_is_not_spun_for(stage: Stage, state: Any) -> None:
    stage.offer(manifest(**EVERYONE))
    stage.coordinator.say(State(state=state))
    with Running(stage):
        until(lambda: stage.coordinator.joins)
        before, began = len(stage.coordinator.requests), time.monotonic()
        until(lambda: len(stage.coordinator.requests) >= before + 6)
        assert time.monotonic() - began >= 0.6


def test_a_flood_of_bytes_that_are_no_manifests_fills_no_memory(stage: Stage) -> None:
    stage.coordinator.manifests += [HEADER + b"%d" % number for number in range(MOST_KNOWN + 100)]
    with Running(stage) as running:
        running.client._known.update({number.to_bytes(32, "big"): None for number in range(MOST_KNOWN)})
        until(lambda: len(stage.coordinator.joins) >= 10)
        assert len(running.client._known) <= MOST_KNOWN
        began, before = time.monotonic(), len(stage.coordinator.joins)
        until(lambda: len(stage.coordinator.joins) >= before + 10)
        assert time.monotonic() - began > 10 / 60
        stage.coordinator.manifests[:] = [manifest(**EVERYONE).canonical]  # the honest run is still taken up
        until(lambda: any(join.accepted for join in stage.coordinator.joins))


def test_refused_manifests_fill_no_disk(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.sqlite")
    outbox.note(b"kept", "kept", b"{}", "joined")
    for number in range(MOST_REFUSED + 10):
        outbox.note(number.to_bytes(32, "big"), f"run-{number}", b"{}", REFUSED, "no")
    kept = [held.run for held in outbox.runs()]
    assert kept == ["kept", *(f"run-{number}" for number in range(10, MOST_REFUSED + 10))]
    outbox.close()


HALF = '"\\ud800":1'
TRICKS: dict[str, tuple[bytes, bytes]] = {
    "half a character in a free table": (b'"schema":{', b'"schema":{"\\ud800":1,'),
    "half a character in a value": (b'"kind":"binary"', b'"kind":"\\ud800"'),
    "half a character in a field": (b'"schema":{', b'"\\ud800":1,"schema":{'),
    "an escape sequence": (b'"schema":{', b'"\\u001b[2J":1,"schema":{'),
    "a field of a hundred thousand letters": (b'"schema":{', b'"' + b"r" * 100_000 + b'":1,"schema":{'),
    "nested a thousand deep": (b'"schema":{', b'"schema":{"a":' + b"[" * 900 + b"]" * 900 + b","),
    "nested past any stack": (b'"schema":{', b'"schema":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b","),
    "a path for a name": (b'"run":"heart-1"', b'"run":"../../heart"'),
    "letters of another alphabet": (b'"run":"heart-1"', b'"run":"he\\u0430rt-1"'),
    "a name that ends a line": (b'"run":"heart-1"', b'"run":"heart-1\\n"'),
    "right to left": (b'"North Trust"', b'"\\u202eNorth Trust"'),
    "a mebibyte and more": (b'"schema":{', b'"schema":{"a":"' + b"x" * (1 << 20) + b'",'),
}


def test_manifests_with_tricks_are_declined_in_plain_words_and_end_nothing(stage: Stage) -> None:
    plain = manifest(**EVERYONE).canonical
    tricky = [plain.replace(old, new, 1) for old, new in TRICKS.values()]
    assert plain not in tricky
    stage.coordinator.manifests += tricky
    with Running(stage) as running:
        assert refusal(stage, len(tricky))
        for join in stage.coordinator.joins:
            assert not join.accepted
            assert join.reason.isprintable()
            assert len(join.reason) < 1000
        assert {join.manifest_digest for join in stage.coordinator.joins} == {sha256(each).digest() for each in tricky}
        assert running.thread.is_alive()
        stage.offer(manifest(**EVERYONE))
        until(lambda: any(join.accepted for join in stage.coordinator.joins))


@pytest.mark.parametrize(
    "table", [{"\ud800": 1}, {"a": "\udfff"}, {"a": [{"\x1b[2J": 1}]}, {"two\nlines": 1}], ids=ascii
)
def test_free_tables_hold_only_text_that_every_message_takes(table: dict[str, Any]) -> None:
    with pytest.raises(ManifestError) as caught:
        manifest(**{"regulariser.more": table})
    assert str(caught.value).isprintable()


def test_an_outcome_that_writes_on_terminals_is_cleaned(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        until(lambda: stage.coordinator.joins)
        said = State(state=State.STATE_ENDED, ends=stage.ends(made, 0), outcome="\x1b[2Jfinished\r\n\u202e")
        stage.coordinator.say(said)
        until(lambda: states(stage)["heart-1"][0] == "settled")
        assert states(stage)["heart-1"][1].isprintable()


@pytest.mark.parametrize("how", ["no signature", "a long one", "no node", "empty", "many", "name"])
def test_strange_ends_prove_nothing(stage: Stage, how: str) -> None:
    made = manifest(**EVERYONE)
    ends = stage.ends(made, 0)
    if how == "no signature":
        ends[0].signature = b""
    elif how == "a long one":
        ends[0].signature += bytes(1 << 16)
    elif how == "no node":
        ends[0].aggregator = "\x1b[2Jnorth"
    elif how == "empty":
        ends = [common_pb2.SignedEnd(), common_pb2.SignedEnd()]
    elif how == "many":
        ends = [ends[0]] * 500
    else:
        ends[1].aggregator = ends[0].aggregator
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        stage.coordinator.say(State(state=State.STATE_ENDED, ends=ends, outcome="stopped"))
        until(lambda: states(stage)["heart-1"][0] == "ended")
        assert not ledger(stage).runs["heart-1"].ended


def test_a_coordinator_of_another_run_cannot_ask(stage: Stage) -> None:
    """Another certified coordinator at the address that the party dials is hung up on."""
    from parley.federation.names import NodeName, Role

    rival = NodeName("cardio", Role.coordinator, "rival")
    stage.identities[rival] = stage.authority.issue_as(rival)
    stage.servers[LEAD].stop(0).wait()
    from parley.v1 import coordinator_pb2_grpc

    stage.serve(
        rival, coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server, stage.coordinator, stage.ports[LEAD]
    )
    stage.offer(manifest(**EVERYONE))
    with Running(stage):
        time.sleep(1.5)
        assert not stage.coordinator.joins
        assert not stage.coordinator.requests
