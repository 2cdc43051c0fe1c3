"""What a party remembers of its own past, and whom it asks."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.commands.doctor import examine
from parley.cli.commands.party import app
from parley.node.doctor import FAILED
from parley.party.errors import OutboxError
from parley.privacy.errors import LedgerCorruptError
from parley.v1 import aggregator_pb2
from tests.support.documents import manifest
from tests.support.memories import POINT, files, joined, left
from tests.support.party_process import EVERYONE, Running, charged, ledger
from tests.support.stage import Stage, question
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")


@pytest.mark.parametrize("gone", ["ledger.sqlite*", "ledger.sqlite", "ledger.sqlite.head"])
def test_a_lost_ledger_beside_what_was_answered_is_no_new_ledger(stage: Stage, gone: str) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    for path in files(stage, gone):
        path.unlink()
    with pytest.raises(LedgerCorruptError):
        Running(stage)
    done = CliRunner().invoke(
        app, ["approve", str(stage.node), "heart-1", "--digest", made.digest.hex(), "--by", "Ada"]
    )
    assert done.exit_code != 0
    if gone == "ledger.sqlite*":
        assert {each.check: each for each in examine(stage.node)}["memory"].state == FAILED


@pytest.mark.parametrize("beside", ["outbox.sqlite*", "admissions.sqlite*", "trail.jsonl"])
def test_any_one_of_the_other_files_tells_that_there_was_a_ledger(stage: Stage, beside: str) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    kept = files(stage, beside)
    for path in files(stage, "*"):
        if path not in kept:
            path.unlink()
    with pytest.raises(LedgerCorruptError, match=r"is missing, and .* tell of runs: put back"):
        Running(stage)


def test_an_outbox_that_is_older_than_the_trail_or_the_ledger_is_found(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    copies = {path: path.read_bytes() for path in files(stage, "outbox.sqlite*")}
    with Running(stage):
        stage.coordinator.ask(question(made, 1, (POINT, np.zeros(3))))
        stage.opened(1)
        until(lambda: stage.coordinator.requests[-1].after_round == 1)
    newest = {path: path.read_bytes() for path in files(stage, "outbox.sqlite*")}
    for path in newest:
        path.unlink()
    for path, data in copies.items():
        path.write_bytes(data)
    with pytest.raises(OutboxError, match="round 1 of run heart-1"):
        Running(stage)
    for path in copies:
        path.unlink(missing_ok=True)
    for path, data in newest.items():
        path.write_bytes(data)
    Running(stage).__exit__()


def test_who_was_put_back_says_so_before_it_judges_what_servers_state(stage: Stage, tmp_path: Path) -> None:
    """They state an upload that it has forgotten: it is not they who are at fault."""
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        joined(stage, made)
    copy = tmp_path / "last week"
    shutil.copytree(stage.node / "state", copy, ignore=lambda *_: {"party.lock"})
    with Running(stage):
        charged(stage, made)
    shutil.rmtree(stage.node / "state")
    shutil.copytree(copy, stage.node / "state")
    (stage.node / "state").chmod(0o700)
    stage.a.recalled = [aggregator_pb2.RecalledRun(manifest_digest=made.digest, run="heart-1", last_round=0)]
    with Running(stage):
        stage.coordinator.ask(question(made, 1, (POINT, np.zeros(3))))
        assert "takes no part" in left(stage)
    assert '"statement.refused"' not in (stage.node / "state" / "trail.jsonl").read_text()


def test_a_whole_folder_that_is_put_back_is_found_by_what_one_server_remembers(stage: Stage, tmp_path: Path) -> None:
    first, second = manifest(**EVERYONE), manifest(**EVERYONE, run="heart-2")
    stage.offer(first)
    with Running(stage):
        joined(stage, first)
    copy = tmp_path / "last week"
    shutil.copytree(stage.node / "state", copy, ignore=lambda *_: {"party.lock"})
    with Running(stage):
        charged(stage, first)
        stage.finish(stage.ends(first, 1))
        until(lambda: ledger(stage).runs["heart-1"].ended)
    shutil.rmtree(stage.node / "state")
    shutil.copytree(copy, stage.node / "state")
    (stage.node / "state").chmod(0o700)
    stage.b.recalled = [aggregator_pb2.RecalledRun(manifest_digest=first.digest, run="heart-1", last_round=0)]
    stage.coordinator.manifests, stage.coordinator.current = [second.canonical], None
    uploads = len(stage.a.pieces)
    with Running(stage):
        joined(stage, second)
        stage.coordinator.only = second.digest
        stage.coordinator.ask(question(second, 0, (POINT,)))
        assert "takes no part" in left(stage)
    assert len(stage.a.pieces) == uploads
    assert not ledger(stage).runs
