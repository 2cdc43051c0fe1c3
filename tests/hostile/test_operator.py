"""The operator's socket: for its owner alone; and what peers say is text on the operator's terminal, nothing else."""

import asyncio
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
from rich.console import Console

from parley.cli.commands.status import show_status
from parley.cli.watch_screen import follow
from parley.coordinator.errors import StateError
from parley.coordinator.process import bind_socket
from parley.coordinator.store import State
from parley.federation.manifest import HEADER, Manifest
from parley.v1 import operator_pb2
from tests.federation import documents
from tests.hostile.lead import SECONDS, Lead, joining, refused

REASON = "[/bold] [link=file:///etc/passwd]open[/link] [red]"


def test_the_socket_is_its_owners_alone(lead: Lead) -> None:
    assert stat.S_IMODE(lead.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(lead.socket.parent.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_of_the_machine_cannot_open_it(lead: Lead) -> None:
    script = (
        "import os, socket\nos.setgid(65534)\nos.setuid(65534)\ntry:\n"
        f"    socket.socket(socket.AF_UNIX).connect({str(lead.socket)!r})\n"
        "except PermissionError:\n    print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "refused"


def test_a_folder_that_others_may_enter_takes_no_socket(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o755)

    async def bound() -> None:
        bind_socket(grpc.aio.server(), state)

    with pytest.raises(StateError, match="may be entered by others"):
        asyncio.run(bound())


BODY = documents.manifest().canonical
MANIFESTS: dict[str, bytes] = {
    "nothing": b"",
    "another protocol": BODY.replace(b"manifest 2", b"manifest 1", 1),
    "not canonical": BODY + b" ",
    "a mebibyte and more": BODY + b" " * (1 << 20),
    "nested past any stack": HEADER + b"[" * 100_000,
    "a path for a name": BODY.replace(b'"heart-1"', b'"../../etc/cron.d/x"'),
    "a slash": BODY.replace(b'"heart-1"', b'"a/b"'),
    "a dot": BODY.replace(b'"heart-1"', b'"."'),
    "nothing for a name": BODY.replace(b'"heart-1"', b'""'),
    "another alphabet": BODY.replace(b'"heart-1"', b'"he\\u0430rt-1"'),
    "half a character": BODY.replace(b'"schema":{', b'"\\ud800":1,"schema":{'),
    "half a character in a table": BODY.replace(b'"schema":{', b'"schema":{"\\udfff":1,'),
    "one aggregator twice": BODY.replace(b'"south"', b'"north"'),
    "one legal entity": BODY.replace(b'"South Foundation"', b'"NORTH  trust"'),
    "one legal entity in wide letters": BODY.replace(b'"South Foundation"', b'"\\uff2eorth Trust"'),
    "minimum of one": BODY.replace(b'"minimum_parties":2', b'"minimum_parties":1'),
    "no noise": BODY.replace(b'"noise_multiplier":1.2', b'"noise_multiplier":0.0'),
    "noise that is not a number": BODY.replace(b'"noise_multiplier":1.2', b'"noise_multiplier":NaN'),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_what_is_no_manifest_is_refused_in_one_printable_line(lead: Lead, kind: str) -> None:
    assert MANIFESTS[kind] != BODY
    with pytest.raises(grpc.RpcError) as raised:
        lead.operator.Submit(operator_pb2.SubmitRequest(manifest=MANIFESTS[kind]), timeout=SECONDS)
    assert isinstance(raised.value, grpc.Call)
    assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert (raised.value.details() or "").isprintable()
    assert not list((lead.folder).glob("models/**/*x*"))


@pytest.mark.parametrize(
    "name", ["", "no-such-run", "../../x", "a" * 100_000, "[/bold]", "\u202e", "'; DROP TABLE runs"]
)
def test_a_run_that_there_is_not_is_refused(lead: Lead, name: str) -> None:
    for call in (
        lambda: lead.operator.Stop(operator_pb2.StopRequest(run=name, final=True), timeout=SECONDS),
        lambda: lead.operator.Resume(operator_pb2.ResumeRequest(run=name), timeout=SECONDS),
    ):
        assert refused(call) == "failed_precondition"


def test_a_run_under_way_is_not_resumed_and_one_that_rests_is(lead: Lead, running: Manifest) -> None:
    resume = operator_pb2.ResumeRequest(run=running.run)
    assert refused(lambda: lead.operator.Resume(resume, timeout=SECONDS)) == "failed_precondition"
    lead.operator.Stop(operator_pb2.StopRequest(run=running.run), timeout=SECONDS)
    lead.operator.Resume(resume, timeout=SECONDS)
    lead.finishes(running)


def test_an_aggregator_that_does_not_sign_the_end_wedges_no_run(lead: Lead, running: Manifest) -> None:
    """The run rests, may be stopped again, and may be resumed: it is never without a driver and unstoppable."""
    lead.servers[0].refuse_end = True
    stop = operator_pb2.StopRequest(run=running.run, final=True)
    try:
        assert refused(lambda: lead.operator.Stop(stop, timeout=SECONDS)) == "failed_precondition"
    finally:
        lead.servers[0].refuse_end = False
    assert lead.process.runs.all[running.digest].state is State.stopped
    lead.operator.Stop(stop, timeout=SECONDS)
    assert lead.process.runs.all[running.digest].state is State.failed


def test_what_parties_say_is_text_on_the_operators_terminal(
    lead: Lead, run_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lead.submit(run_name)
    for party in made.parties:
        lead.stub(party).Join(joining(made, False, REASON), timeout=SECONDS)
    run = lead.process.runs.all[made.digest]
    until = time.monotonic() + SECONDS
    while run.state is not State.failed and time.monotonic() < until:
        time.sleep(0.02)
    assert REASON in run.outcome
    monkeypatch.setattr("parley.cli.commands.status.Console", lambda **_: Console(width=2000))
    monkeypatch.setattr("parley.cli.watch_screen.Console", lambda **_: Console(width=2000))
    show_status(lead.folder, json_output=False)
    from parley.coordinator.operator_client import Coordinator

    follow(Coordinator(lead.folder), made.digest)
