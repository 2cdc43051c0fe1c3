"""Folders of the last version: they open by a migration, and what was spent stays spent."""

import json
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

import parley.privacy.chain
from parley.aggregator.opening_store import DamagedError, OpeningStore, Phase
from parley.cli.commands.party import app
from parley.federation.admission import AdmissionRecord
from parley.federation.errors import ApprovalError
from parley.party.outbox import Outbox
from parley.privacy.errors import LedgerCorruptError, LedgerRefusedError, OtherContentError
from parley.privacy.head import Head
from parley.privacy.ledger import EndProof, Ledger
from tests.federation.documents import manifest
from tests.federation.old_nodes import unpack
from tests.federation.party_process import Running
from tests.federation.stage import Stage, wait_for

RUNS = ("heart-1", "heart-2", "heart-3")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return unpack(tmp_path / "old")


def spent(path: Path) -> float:
    """As its entries have it, read without this program."""
    with closing(sqlite3.connect(path)) as database:
        bodies = [json.loads(body) for (body,) in database.execute("SELECT body FROM entries WHERE kind = 'reserve'")]
    return sum(float(body["charge"]["cost"]["epsilon"]) for body in bodies)


def test_an_old_ledger_is_written_again_with_its_salt_apart_and_nothing_spent_is_forgotten(old: Path) -> None:
    path = old / "party" / "state" / "ledger.sqlite"
    with closing(Ledger.open(path)) as before:  # whoever only reads changes nothing
        head, cost = before.verify(), before.populations["patients"].spent
        identity = before.populations["patients"].identities[0]
    assert cost.epsilon == pytest.approx(spent(path))
    assert cost.epsilon > 0.5
    salt = json.loads(sqlite3.connect(path).execute("SELECT body FROM entries").fetchone()[0])["salt"]
    with closing(Ledger.open_newest(path)) as after:
        assert after.populations["patients"].spent == cost
        assert set(after.runs) == set(RUNS)
        assert after.runs["heart-1"].ended
        assert sorted(after.runs["heart-2"].recorded) == [0]
        assert {run.content for run in after.runs.values()} == {identity.digest}
        now = after.verify()
        assert now.sequence == head.sequence
        assert now.digest != head.digest
        assert after.verify(head) == now  # an anchor that somebody kept from before still holds
        rows = (old / "party" / "records.csv").read_text().splitlines()[1:]
        assert len(after.identity(row.encode() for row in rows).sketch) == 300
        files = list(path.parent.glob("ledger.sqlite*"))
        assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    assert salt.encode() not in path.read_bytes()
    assert (path.parent / "ledger.sqlite.salt").read_text().strip() == salt
    with closing(Ledger.open_newest(path)) as again:
        assert again.verify() == now
    with pytest.raises(LedgerCorruptError):
        Ledger.open(path, Head(head.sequence, "0" * 64))


@pytest.mark.parametrize("moment", ["salt", "head"])
def test_a_crash_of_the_migration_leaves_a_ledger_that_opens(
    old: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old / "party" / "state" / "ledger.sqlite"
    cost = spent(path)

    def dies(target: Path, text: str) -> None:
        if target.name.endswith(moment):
            raise KeyboardInterrupt
        target.write_text(text)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(parley.privacy.chain, "replace_durably", dies)
        patched.setattr("parley.privacy.ledger_salt.replace_durably", dies)
        Ledger.open_newest(path)
    with closing(Ledger.open_newest(path)) as after:
        assert after.populations["patients"].spent.epsilon == pytest.approx(cost)
        assert after._state.salt == ""


def test_another_salt_or_another_head_beside_a_migrated_ledger_is_found(old: Path) -> None:
    path = old / "party" / "state" / "ledger.sqlite"
    Ledger.open_newest(path).close()
    salt = path.with_name("ledger.sqlite.salt")
    kept = salt.read_text()
    salt.write_text("0" * 32 + "\n")
    with pytest.raises(LedgerCorruptError, match="salt"):
        Ledger.open(path)
    salt.unlink()
    # What was spent is read.
    with closing(Ledger.open(path)) as ledger, pytest.raises(LedgerCorruptError, match="salt"):
        ledger.identity([b"a row"])
    salt.write_text(kept)
    Ledger.open(path).close()


def test_an_old_run_with_several_contents_is_bound_to_none(tmp_path: Path) -> None:
    """Which of them it was charged for is not known: it may be settled, and not answered."""
    path = unpack(tmp_path) / "party" / "state" / "ledger.sqlite"
    with closing(Ledger.open_newest(path)) as ledger:
        ledger.extend("patients", ledger.identity([b"other rows"]))
        known = ledger.populations["patients"].identities
        for content in (each.digest for each in known[1:]):
            with pytest.raises(OtherContentError):
                ledger.require_content("heart-2", content)
        ledger.require_content("heart-2", known[0].digest)
        with pytest.raises(LedgerRefusedError):
            ledger.settle(EndProof("heart-2", 0, "words", b""), _refuse)


def _refuse(proof: EndProof) -> None:
    raise LedgerRefusedError("no")


def test_an_old_outbox_gets_its_seals_and_keeps_every_answer(old: Path) -> None:
    path = old / "party" / "state" / "outbox.sqlite"
    with closing(sqlite3.connect(path)) as database:
        before = database.execute("SELECT run, round, upload FROM answers JOIN runs USING (digest)").fetchall()
    with closing(Outbox(path)) as outbox:
        outbox.require_sound()
        runs = outbox.runs()
        assert [(held.run, held.state) for held in runs] == [
            ("heart-1", "settled"),
            ("heart-2", "joined"),
            ("heart-3", "joined"),
        ]
        found = [(held.run, index, upload) for held in runs for index, upload in outbox.uploads(held.digest).items()]
        assert sorted(found) == sorted(before)
        last = outbox.last(runs[1].digest)
        assert last is not None
        assert not last.erased
        assert last.payload_a
    with closing(sqlite3.connect(path)) as database:
        assert all(
            len(seal) == 32 for (seal,) in database.execute("SELECT seal FROM answers UNION SELECT seal FROM runs")
        )
        database.execute("PRAGMA user_version = 9")
    with pytest.raises(Exception, match="unknown layout 9"):
        Outbox(path)


def test_an_old_store_of_openings_gets_its_seals_and_opens_nothing_twice(old: Path) -> None:
    path = old / "server" / "openings.sqlite"
    store = OpeningStore(path)
    store.require_whole("heart-1")
    phases = [found and found.phase for found in (store.find("heart-1", index) for index in range(4))]
    assert phases == [Phase.committed, Phase.committed, Phase.prepared, None]
    assert (store.counts("heart-1").mine, store.ended("heart-0")) == (2, 0)
    assert store.last_with("heart-1", "hospital-a") == 1
    assert store.last_with("heart-1", "hospital") is None
    store.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE counts SET mine = 1")
        database.commit()
    with pytest.raises(DamagedError, match="counts"):
        OpeningStore(path).counts("heart-1")


@pytest.mark.usefixtures("verified_in_process")
def test_a_party_of_the_last_version_goes_on_where_it_was(stage: Stage, old: Path) -> None:
    shutil.rmtree(stage.node / "state")
    shutil.copytree(old / "party" / "state", stage.node / "state")
    (stage.node / "state").chmod(0o700)
    shutil.copy(old / "party" / "records.csv", stage.node / "records.csv")
    stage.seal()
    path = stage.node / "state" / "ledger.sqlite"
    cost = spent(path)
    with closing(Outbox(stage.node / "state" / "outbox.sqlite")) as outbox:
        former = {held.digest for held in outbox.runs()}
    made = manifest(run="heart-9")
    stage.offer(made)
    with Running(stage):
        wait_for(lambda: [join for join in stage.coordinator.joins if join.accepted])
    # Manifests of the last version are not read any more: their runs are not gone on with, and stay charged.
    assert not former & {join.manifest_digest for join in stage.coordinator.joins}
    assert Ledger.open(path).populations["patients"].spent.epsilon == pytest.approx(cost)
    done = CliRunner().invoke(app, ["settle", str(stage.node), "--json"])
    assert done.exit_code == 1
    reasons = {each["reason"] for each in json.loads(done.output.splitlines()[-1])["runs"]}
    assert reasons == {"it is of an earlier version of parley, which alone can settle it"}
    record = AdmissionRecord(stage.node / "state" / "admissions.sqlite")
    with closing(record), pytest.raises(ApprovalError, match="admitted by an earlier version"):
        record.put(manifest(run="heart-3"), "policy", "policy")
