"""Backups of every role's folder, taken while a run goes on and after it: closed lists, no secret, one story."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from parley.cli.commands.backup import contents_of
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation
from parley.federation.manifest import Manifest
from parley.node import backup, restoration
from parley.node.node_file import AnyNode, read_node
from parley.party import backup as of_a_party
from parley.party.memory import require_agreement
from parley.party.outbox import Outbox
from parley.privacy.ledger import Ledger
from tests.support.backups import opened_by
from tests.support.until import until

pytestmark = pytest.mark.slow
KEY = X25519PrivateKey.generate()
MARK = b"a-marker-that-is-planted-where-nothing-may-leave"
WHOLE_RUN = 12


def made(node: AnyNode, out: Path) -> backup.Made:
    return backup.make(node, contents_of(node), out, KEY.public_key())


def test_of_every_role_the_list_is_closed_and_no_secret_is_in_the_backup(
    tmp_path: Path, manifest: Manifest, data: dict[str, list[Path]]
) -> None:
    """`stderr.log` is this federation's own: on a machine of its own a node's output is the system's affair."""
    with LocalFederation(tmp_path / "nodes", manifest, data, dashboard=True, evaluation=data["party-1"]) as federation:
        last = federation.parties[-1]
        federation.start()
        last.stop()
        last.start({"PARLEY_CRASH_AT": "party.recorded:3"})
        last.wait_ready()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)
        until(lambda: not last.alive)
        for node in federation.nodes.values():
            here = read_node(node.folder)
            secrets = _secrets(here)
            for path in _outside(here):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(MARK)
            found = made(here, tmp_path / node.name)
            assert set(found.unknown) == {"stderr.log"}, "put it on the list of its role, on one side or the other"
            plain = b"".join(opened_by(KEY, tmp_path / node.name).values())
            assert MARK not in plain
            assert secrets, "there is nothing to look for"
            for secret in secrets:
                assert secret not in plain
        last.start()
        last.wait_ready()
        *_, (row, _) = coordinator.follow(digest)
        assert row.state is State.finished
        for node in federation.nodes.values():
            assert set(made(read_node(node.folder), tmp_path / f"{node.name} after").unknown) == {"stderr.log"}


def _secrets(node: AnyNode) -> list[bytes]:
    """Bytes of what must not leave, as they lie there now; a database's are marked beside."""
    found = []
    for name in ("state/ledger.sqlite.salt", "state/dashboard.token"):
        if (node.folder / name).exists():
            found.append((node.folder / name).read_bytes().strip())
    for name, query in (
        ("outbox", "SELECT payload_a, payload_b FROM answers WHERE payload_a NOT NULL"),
        ("openings", "SELECT share FROM shares"),
    ):
        path = node.state / f"{name}.sqlite"
        if path.exists():
            with closing(sqlite3.connect(path)) as database:
                values = [value for row in database.execute(query) for value in row]
            assert values, path
            found += [piece for value in values for piece in (value[:32], value[-32:])]
    return found


def _outside(node: AnyNode) -> list[Path]:
    """A file for each pattern that leaves something out, but for those that would spoil what the node has."""
    patterns = [
        pattern for pattern in contents_of(node).outside
        if not pattern.endswith((".lock", "-wal", "-shm", ".salt", ".head", ".sock", "restored.json"))
        and not pattern.startswith("/")
    ]  # fmt: skip
    named = [pattern.replace("*", "planted") for pattern in patterns]
    return [node.folder / name for name in named if not (node.folder / name).exists()]


def test_a_backup_that_is_taken_at_any_moment_of_a_run_tells_one_story(
    tmp_path: Path, manifest: Manifest, data: dict[str, list[Path]]
) -> None:
    with LocalFederation(tmp_path / "nodes", manifest, data) as federation:
        federation.start()
        party = read_node(federation.parties[0].folder)
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)
        taken = 0
        while (row := coordinator.store.find("small")).state is not State.finished:
            assert not row.state.final, row.outcome
            made(party, tmp_path / f"backup-{taken}")
            taken += 1
    rounds = set()
    for number in range(taken):
        home = tmp_path / f"restored-{number}"
        restoration.restore(tmp_path / f"backup-{number}", home, KEY, contents_of, of_a_party.finish)
        with (
            closing(Ledger.open(home / "state" / "ledger.sqlite")) as ledger,
            closing(Outbox(home / "state" / "outbox.sqlite")) as outbox,
        ):
            require_agreement(ledger, outbox, home / "state" / "trail.jsonl")
            answered = outbox.uploads(digest)
            assert not answered or "small" in ledger.runs
            rounds.add(len(answered))
        shutil.rmtree(home)
    assert taken > 2
    assert len(rounds) > 1, "no backup fell into the run"
    assert max(rounds) <= WHOLE_RUN
