"""A party that dies at any labelled point, or whose servers do: the same bytes again, never a second vector."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from typing import Any

import pytest

from parley.federation.rounds import commitment_a, commitment_b, upload_digest
from parley.mpc import crash
from parley.party.errors import OutboxError
from parley.party.settlement import WAIT_SECONDS as SETTLING_SECONDS
from tests.support.documents import PARTY_POLICY, manifest
from tests.support.party_process import EVERYONE, Running, ledger
from tests.support.restarts import asked
from tests.support.stage import PARTY, Stage
from tests.support.until import GIVE_UP_SECONDS, until

pytestmark = pytest.mark.usefixtures("verified_in_process")


def process(stage: Stage, crash_at: str = "") -> "subprocess.Popen[bytes]":
    environment = {**os.environ, crash.VARIABLE: crash_at, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "parley.party", str(stage.node)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def joined(stage: Stage, made: Any) -> None:
    """Admitted by a process before the one that a test is about."""
    stage.offer(made)
    with Running(stage):
        until(lambda: stage.coordinator.joins)


@pytest.mark.parametrize(
    "label",
    ["party.joined:1", "party.outbox.uncommitted:2", "party.outbox:2", "party.recorded:2", "party.acknowledged:2"],
)
@pytest.mark.slow
def test_a_killed_party_resends_identical_bytes(stage: Stage, label: str) -> None:
    made = manifest()  # batches of 15 of 300: what is computed again would be another vector
    joined(stage, made)
    stage.coordinator.repeat = True  # rounds are asked for until they are opened, as a coordinator does
    died = process(stage, label)
    if not label.startswith("party.joined"):
        stage.coordinator.ask(asked(made, 0))
        stage.opened(0)
        stage.coordinator.ask(asked(made, 1))
    assert died.wait(GIVE_UP_SECONDS) == -signal.SIGKILL
    before = len(stage.a.whole)
    again = process(stage)
    try:
        for index in (0, 1) if label.startswith("party.joined") else (1,):
            stage.coordinator.ask(asked(made, index))
            stage.opened(index)
        until(lambda: len(stage.a.whole) > before)
        stage.coordinator.ask(asked(made, 2))
        stage.opened(2)
    finally:
        again.send_signal(signal.SIGTERM)
        out, _ = again.communicate(timeout=GIVE_UP_SECONDS)
    assert again.returncode == 0
    assert json.loads(out.splitlines()[0]) == {"ready": True, "role": "party", "name": "hospital-a"}
    for server in (stage.a, stage.b):
        seen = defaultdict(set)
        for index, payload in server.whole:
            seen[index].add(payload)
        assert {index: len(each) for index, each in seen.items()} == {0: 1, 1: 1, 2: 1}
    for index, digest in ledger(stage).runs["heart-1"].recorded.items():
        expected = upload_digest(
            made.digest, index, PARTY.uri, asked(made, index).query_digest,
            commitment_a(stage.a.payloads[index]), commitment_b(stage.b.payloads[index]),
        )  # fmt: skip
        assert digest == expected.hex()


def test_releases_that_a_loss_of_power_took_from_the_ledger_are_in_it_again_after_the_start(stage: Stage) -> None:
    made = manifest()
    stage.offer(made)
    with Running(stage):
        stage.coordinator.ask(asked(made, 0))
        stage.opened(0)
    books = {path: path.read_bytes() for path in (stage.node / "state").glob("ledger.sqlite*")}
    with Running(stage):
        stage.coordinator.ask(asked(made, 1))
        stage.opened(1)
    with contextlib.closing(ledger(stage)) as after:
        kept = after.runs["heart-1"].recorded
    assert set(kept) == {0, 1}
    for path in (stage.node / "state").glob("ledger.sqlite*"):
        path.unlink()
    for path, data in books.items():
        path.write_bytes(data)
    with Running(stage):
        pass
    assert ledger(stage).runs["heart-1"].recorded == kept


@pytest.mark.parametrize("kind", [ValueError, MemoryError, RecursionError])
def test_a_computation_that_fails_is_answered_with_zeros_once_and_the_run_is_left_for_good(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], kind: type[Exception]
) -> None:
    """Were a record the cause, its bit would show once and not in every round; and no value shows at all."""
    made = manifest(**EVERYONE)
    stage.offer(made)
    secret = "patient Wollstonecraft has a fever"  # no digits: lines hold times, ports and digests

    def fails(*_: Any) -> Any:
        raise kind(secret)

    with Running(stage):
        stage.coordinator.ask(asked(made, 0))
        assert stage.opened(0).any()
        monkeypatch.setattr("parley.learning.engine.Here.gradients", fails)
        stage.coordinator.ask(asked(made, 1))
        assert stage.opened(1).tolist() == [0, 0, 0]
        until(lambda: not stage.coordinator.joins[-1].accepted)
        # The words are those of a run that its operator has withdrawn.
        assert "this party takes no part in run heart-1" in stage.coordinator.joins[-1].reason
    monkeypatch.undo()
    stage.coordinator.ask(asked(made, 2))
    before = len(stage.coordinator.requests)
    with Running(stage) as again:
        again.client._known.clear()  # offered anew, as to a party that has forgotten it
        until(lambda: len(stage.coordinator.joins) >= 3)
        assert not stage.coordinator.joins[-1].accepted
    # All that is asked about a run that was left is whether it has ended.
    assert {request.wait_seconds for request in stage.coordinator.requests[before:]} <= {SETTLING_SECONDS}
    assert sorted(stage.a.payloads) == [0, 1]
    assert sorted(ledger(stage).runs["heart-1"].recorded) == [0, 1]
    said = "".join(capfd.readouterr())
    assert "the round cannot be computed here, this party leaves" in said
    assert "Wollstonecraft" not in said
    assert "fever" not in said


def test_a_party_that_dies_before_its_last_answer_is_stored_does_not_compute_it_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)

    def fails(*_: Any) -> Any:
        raise MemoryError

    def full(*_: Any) -> Any:
        raise OutboxError("the disk is full")

    with monkeypatch.context() as patches, Running(stage):
        until(lambda: stage.coordinator.joins)
        patches.setattr("parley.learning.engine.Here.gradients", fails)
        patches.setattr("parley.party.outbox.Outbox.put", full)
        stage.coordinator.ask(asked(made, 0))
        until(lambda: not stage.coordinator.joins[-1].accepted)
    with Running(stage):
        assert not stage.a.payloads
    assert not stage.a.payloads


def test_a_person_may_wave_through_what_the_policy_does_not(stage: Stage) -> None:
    (stage.node / "policy.toml").write_text(PARTY_POLICY.replace('["ddp-srm"]', '["dp-sgd"]'))
    made = manifest(**EVERYONE)
    stage.offer(made)
    parley = [sys.executable, "-m", "parley.cli.main", "party"]
    with Running(stage):
        listed = [*parley, "runs", str(stage.node), "--json"]
        until(lambda: b'"waiting"' in subprocess.run(listed, capture_output=True, check=True).stdout)
        assert not stage.coordinator.joins
        words = ["approve", str(stage.node), "heart-1", "--digest", made.digest.hex(), "--by", "Ada Osei"]
        subprocess.run([*parley, *words], check=True, capture_output=True)
        until(lambda: stage.coordinator.joins)
        assert stage.coordinator.joins[0].accepted
        stage.coordinator.ask(asked(made, 0))
        stage.opened(0)
        until(lambda: stage.coordinator.requests[-1].after_round == 0)
    done = subprocess.run([*parley, "status", str(stage.node), "--json"], check=True, capture_output=True)
    status = json.loads(done.stdout)
    assert status["runs"][0]["sent"] == {"north": 32 + 24, "south": 32}
    assert 0 < status["budget"]["epsilon_left"] < 4


def test_a_renewed_certificate_is_dialled_with_at_the_next_round(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage) as running:
        stage.coordinator.ask(asked(made, 0))
        stage.opened(0)
        run = next(iter(running.client._runs.values()))
        before = run._wire
        fresh = stage.authority.issue_as(PARTY)
        stage.install(fresh, stage.node / "identity", "second")
        stage.coordinator.ask(asked(made, 1))
        stage.opened(1)
        stage.coordinator.ask(asked(made, 2))
        stage.opened(2)
        assert before is not None
        assert before.identity == fresh
