"""A party's backup, of a folder in which a run was answered: the list is closed, and nothing private is in it."""

import io
import json
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from parley.cli.commands.backup import contents_of
from parley.node import backup, restoration
from parley.node.backup_key import BackupError
from parley.node.backup_stream import Encrypting
from parley.node.restoration import confirm, mark_of, require_confirmed
from parley.party.backup import contents, finish
from parley.party.memory import require_agreement
from parley.party.outbox import Outbox
from parley.party.process import party_node
from parley.privacy.ledger import Ledger
from tests.support.backups import opened_by
from tests.support.documents import manifest
from tests.support.party_process import EVERYONE, Running, charged, ledger
from tests.support.stage import Stage

pytestmark = pytest.mark.usefixtures("verified_in_process")
KEY = X25519PrivateKey.generate()
MARK = b"a-marker-that-is-planted-where-nothing-may-leave"
PLANTED = (
    "state/seal.json", "state/seal-other.json", "state/snapshot.jsonl", "state/features/aa/column.bin",
    "state/speed/aa.json", "state/verified/aa.json", "state/notified", "state/log.jsonl", "state/log.jsonl.1",
    "state/evidence/waiting/aa", "state/.outbox.new", "identity/pending/node.key", "records.csv",
)  # fmt: skip


@pytest.fixture
def used(stage: Stage) -> Iterator[Stage]:
    """With one answer whose bytes are still there."""
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        yield stage


def opened(path: Path) -> dict[str, bytes]:
    return opened_by(KEY, path)


def made(stage: Stage, out: Path) -> backup.Made:
    node = party_node(stage.node)
    return backup.make(node, contents(node), out, KEY.public_key())


def restored(path: Path, folder: Path) -> restoration.Restored:
    return restoration.restore(path, folder, KEY, contents_of, finish)


def test_every_file_and_table_of_a_folder_that_was_in_use_is_on_the_list(used: Stage, tmp_path: Path) -> None:
    found = made(used, tmp_path / "backup")
    assert found.unknown == []
    assert {"state/ledger.sqlite", "state/outbox.sqlite", "identity/current", "node.toml"} <= found.files.keys()


def test_no_marker_comes_out_of_where_secrets_lie(used: Stage, tmp_path: Path) -> None:
    state = used.node / "state"
    for name in PLANTED:
        path = used.node / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(path.read_bytes() + MARK if path.exists() else MARK)
    with closing(sqlite3.connect(state / "outbox.sqlite")) as outbox:
        row = outbox.execute("SELECT payload_a, payload_b FROM answers").fetchone()
        secrets = [row[0][:64], row[0][-64:], row[1]]
        outbox.execute("UPDATE answers SET payload_a = ?, payload_b = ?", (row[0] + MARK, row[1] + MARK))
        outbox.commit()
    salt = (state / "ledger.sqlite.salt").read_text().strip()
    path = tmp_path / "backup"
    found = made(used, path)
    assert set(PLANTED) <= set(found.left_out)
    whole = b"".join(opened(path).values())
    for secret in (MARK, *secrets, salt.encode()):
        assert secret not in whole
    assert not any(secret in path.read_bytes() for secret in (MARK, *secrets))


def test_what_a_list_of_exclusions_means_is_in_no_backup_whatever_the_data_set_is_called(stage: Stage) -> None:
    known = contents(party_node(stage.node))
    assert {known.place(f"state/excluded{name}.json") for name in ("", "-staff")} == {"out"}


def test_what_nobody_has_thought_of_is_left_out_and_named(used: Stage, tmp_path: Path) -> None:
    (used.node / "state" / "something.new").write_bytes(MARK)
    (used.node / "mine.csv").write_bytes(MARK)
    (used.node / "state" / "link").symlink_to("/etc/passwd")
    found = made(used, tmp_path / "backup")
    assert found.unknown == ["mine.csv", "state/link", "state/something.new"]
    assert MARK not in b"".join(opened(tmp_path / "backup").values())


@pytest.mark.parametrize("statement", ["CREATE TABLE more (x)", "ALTER TABLE answers ADD COLUMN more TEXT"])
def test_a_table_or_column_that_is_on_no_list_stops_the_backup(used: Stage, tmp_path: Path, statement: str) -> None:
    with closing(sqlite3.connect(used.node / "state" / "outbox.sqlite")) as outbox:
        outbox.execute(statement)
    with pytest.raises(BackupError, match=r"outbox\.sqlite"):
        made(used, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
    assert not list((used.node / "state").glob(".backup-*"))


def test_a_restored_folder_tells_one_story_and_charges_nothing(used: Stage, tmp_path: Path) -> None:
    made(used, tmp_path / "backup")
    before = ledger(used)
    found = restored(tmp_path / "backup", tmp_path / "new")
    assert found.identity.pin == party_node(used.node).identity.load().pin
    state = tmp_path / "new" / "state"
    with closing(Ledger.open(state / "ledger.sqlite")) as book, closing(Outbox(state / "outbox.sqlite")) as outbox:
        assert book.waits_for_account
        assert book.runs["heart-1"].cost == before.runs["heart-1"].cost
        assert book.mark != before.mark  # another salt: rows have to be sealed again
        assert [held.state for held in outbox.runs()] == ["left"]
        last = outbox.last(manifest(**EVERYONE).digest)
        assert last is not None
        assert last.erased
        require_agreement(book, outbox, state / "trail.jsonl")
    for path in (tmp_path / "new").rglob("*"):
        assert path.is_symlink() or path.stat().st_mode & 0o077 == 0, path


def test_nothing_starts_before_somebody_has_compared_pins_and_policy(used: Stage, tmp_path: Path) -> None:
    made(used, tmp_path / "backup")
    node = restored(tmp_path / "backup", tmp_path / "new").node
    with pytest.raises(BackupError, match="restore --confirm"):
        require_confirmed(node)
    with pytest.raises(BackupError, match="name of the person"):
        confirm(node, " ")
    confirm(node, "Dr. Ada Osei")
    require_confirmed(node)
    with pytest.raises(BackupError, match="nothing to confirm"):
        confirm(party_node(used.node), "Dr. Ada Osei")
    (node.state / "restored.json").write_text("{")
    with pytest.raises(BackupError, match="cannot be read"):
        mark_of(node)


def test_a_folder_that_is_there_is_never_replaced(used: Stage, tmp_path: Path) -> None:
    made(used, tmp_path / "backup")
    with pytest.raises(BackupError, match="is there already"):
        restored(tmp_path / "backup", used.node)
    with pytest.raises(BackupError, match="is there already"):
        made(used, tmp_path / "backup")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BackupError, match="is there already"):
        restored(tmp_path / "backup", tmp_path / "link")
    (tmp_path / "empty").mkdir()
    restored(tmp_path / "backup", tmp_path / "empty")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def rewritten(path: Path, out: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """By somebody who has the public key, and nothing of the node's."""
    files = opened(path)
    change(files)
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    with out.open("wb") as file:
        sink = Encrypting(file, KEY.public_key())
        sink.write(plain.getvalue())
        sink.finish()
    return out


def reindexed(files: dict[str, bytes], **changes: Any) -> None:
    import hashlib

    index = json.loads(files["index.json"]) | changes
    index["files"] = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        for name, data in files.items()
        if not name.startswith("index.")
    }
    files["index.json"] = json.dumps(index, sort_keys=True).encode()


def policy_changed(files: dict[str, bytes]) -> None:
    files["policy.toml"] += b"\n# more\n"


def policy_changed_with_its_digest(files: dict[str, bytes]) -> None:
    policy_changed(files)
    reindexed(files)


def younger(files: dict[str, bytes]) -> None:
    reindexed(files, made=2_000_000_000)


def ledger_left_out(files: dict[str, bytes]) -> None:
    del files["state/ledger.sqlite"]


def outside(files: dict[str, bytes]) -> None:
    files["../escaped"] = b"x"


def absolute(files: dict[str, bytes]) -> None:
    files["/tmp/escaped"] = b"x"


def identity_elsewhere(files: dict[str, bytes]) -> None:
    files["identity/current"] = b"../../../etc"


def unsigned(files: dict[str, bytes]) -> None:
    del files["index.signature"]


CHANGES = [
    policy_changed, policy_changed_with_its_digest, younger, ledger_left_out, outside, absolute, identity_elsewhere,
    unsigned,
]  # fmt: skip


def test_what_the_node_has_not_signed_is_not_restored(used: Stage, tmp_path: Path) -> None:
    made(used, tmp_path / "backup")
    for change in CHANGES:
        path = rewritten(tmp_path / "backup", tmp_path / change.__name__, change)
        with pytest.raises(BackupError):
            restored(path, tmp_path / "new")
        assert not (tmp_path / "new").exists()
        assert not (tmp_path / "escaped").exists()
        assert not list(tmp_path.glob(".*"))
    restored(rewritten(tmp_path / "backup", tmp_path / "same", lambda files: None), tmp_path / "new")


def test_a_folder_without_any_run_can_be_put_back_too(stage: Stage, tmp_path: Path) -> None:
    shutil.rmtree(stage.node / "state")
    (stage.node / "state").mkdir(mode=0o700)
    made(stage, tmp_path / "backup")
    restored(tmp_path / "backup", tmp_path / "new")
    with closing(Ledger.open(tmp_path / "new" / "state" / "ledger.sqlite")) as book:
        assert book.waits_for_account
