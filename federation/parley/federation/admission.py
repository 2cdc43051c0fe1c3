"""Admission: by policy or by a person, and the durable record of which manifests were admitted.

The record is the only thing a running role asks: `require(digest)` gives the manifest or refuses. A run's name is
taken once and for good, so a second manifest under it is refused however good it is; withdrawing one does not free its
name.
"""

import datetime as dt
import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from parley.federation.errors import ApprovalError, IdentityError, ManifestError, UnusableRecordError
from parley.federation.manifest import Manifest, of_an_earlier_version
from parley.federation.meaning import Meaning
from parley.federation.names import NodeName, Role
from parley.federation.policy import Policy, Reason, reasons_against
from parley.privacy.layouts import ADMISSIONS, bring, require_known
from parley.privacy.store import made_of, opened, opened_to_read, transaction

BY_POLICY, BY_HAND = "policy", "hand"
Tell = Callable[[], object]
"""Appends to the trail, durably: between what was found and what is recorded, so that neither is without the other."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS admissions (
    run TEXT PRIMARY KEY, digest BLOB NOT NULL UNIQUE, manifest BLOB NOT NULL, how TEXT NOT NULL,
    approved_by TEXT NOT NULL, at TEXT NOT NULL, overridden TEXT NOT NULL, withdrawn INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE IF NOT EXISTS never (digest BLOB PRIMARY KEY) STRICT;
"""
"""`never` has manifests that were ended before they were admitted."""


@dataclass(frozen=True)
class Admission:
    """A manifest that this node takes part in."""

    manifest: Manifest
    how: str
    """`policy` or `hand`."""
    approved_by: str
    at: str
    """UTC, ISO 8601."""
    overridden: tuple[str, ...] = ()
    """What the policy held against it, and a person waved through."""


@dataclass(frozen=True)
class Refusal:
    """A manifest that this node does not take part in."""

    reasons: tuple[Reason, ...]

    def __str__(self) -> str:
        return "; ".join(str(reason) for reason in self.reasons)


def admit(
    record: "AdmissionRecord",
    meaning: Meaning,
    node: NodeName,
    policy: Policy | None,
    epsilon_spent: float | None = None,
    spent_if_a_server_lies: float | None = None,
) -> Admission | Refusal:
    """By policy: recorded before it is returned. See `policy.reasons_against` for the arguments."""
    reasons = reasons_against(meaning, node, policy, epsilon_spent, spent_if_a_server_lies)
    if reasons:
        return Refusal(reasons)
    return record.put(meaning.manifest, BY_POLICY, BY_POLICY)


def approve_by_hand(
    record: "AdmissionRecord",
    meaning: Meaning,
    node: NodeName,
    policy: Policy | None,
    epsilon_spent: float | None,
    digest: str,
    approved_by: str,
    spent_if_a_server_lies: float | None = None,
    shown: tuple[str, ...] | None = None,
    tell: Tell | None = None,
) -> Admission | Refusal:
    """By a person, who gives the digest of what was read and answers for it by name; `shown` is what they were told
    that the policy holds against it, and no more than that is overridden.

    That overrides a policy's limits, or stands in for a policy, but not what is final: a node that the manifest does
    not list, a total budget that is used up, aggregators of one legal entity.
    """
    if digest.strip().lower() != meaning.manifest.digest.hex():
        raise ApprovalError("the digest is not this manifest's: read the manifest, and give the digest it shows")
    if not approved_by.strip() or not approved_by.isprintable():
        raise ApprovalError("an approval by hand needs the name of the person who gives it, on one line")
    reasons = reasons_against(meaning, node, policy, epsilon_spent, spent_if_a_server_lies)
    if any(reason.final for reason in reasons):
        return Refusal(tuple(reason for reason in reasons if reason.final))
    if shown is not None and shown != tuple(str(reason) for reason in reasons):
        raise ApprovalError("what the policy holds against the run has changed since it was shown: read it again")
    return record.put(meaning.manifest, BY_HAND, approved_by, tuple(str(reason) for reason in reasons), tell)


class AdmissionRecord:
    """Admitted manifests on disk, in SQLite; several processes of one node may share the file."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        """`read_only` beside its node: nothing is made or written."""
        self._lock = threading.Lock()
        try:
            self._database = opened_to_read(path) if read_only else opened(path)
            if read_only:
                require_known(self._database, ADMISSIONS)
            else:
                bring(self._database, ADMISSIONS, {0: lambda made: made_of(made, SCHEMA)})
        except (OSError, sqlite3.Error) as error:
            raise ApprovalError(f"the record of admissions cannot be opened ({error}): check its folder") from None

    def put(
        self,
        manifest: Manifest,
        how: str,
        approved_by: str,
        overridden: tuple[str, ...] = (),
        tell: Tell | None = None,
    ) -> Admission:
        """On disk before it returns. The same manifest again returns the first admission.

        Once nothing stands against it `tell` is called, and if that fails nothing is recorded.
        """
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        row = (manifest.run, manifest.digest, manifest.canonical, how, approved_by, at, "\n".join(overridden))
        with self._using() as execute, transaction(self._database):
            execute(
                "INSERT INTO admissions (run, digest, manifest, how, approved_by, at, overridden) "
                "SELECT ?, ?, ?, ?, ?, ?, ? WHERE ? NOT IN (SELECT digest FROM never) ON CONFLICT DO NOTHING",
                (*row, manifest.digest),
            )
            if execute("SELECT 1 FROM never WHERE digest = ?", (manifest.digest,)).fetchone():
                raise ApprovalError(f"run {manifest.run} was ended before it was admitted here: choose a new name")
            free = "SELECT 1 FROM admissions WHERE digest = ? AND run = ? AND NOT withdrawn"
            if tell is not None and execute(free, (manifest.digest, manifest.run)).fetchone():
                tell()
        held = self._find("run = ?", manifest.run, manifest)
        if held is None or held[0].manifest.digest != manifest.digest:
            raise ApprovalError(
                f"run {manifest.run} was admitted with another manifest: a run's name can be used only once, choose a "
                "new one"
            )
        if held[1]:
            raise ApprovalError(f"run {manifest.run} was withdrawn: it is not admitted again, choose a new name")
        return held[0]

    def require(self, digest: bytes, known: Manifest | None = None) -> Manifest:
        """The admitted manifest of that digest, or a refusal. One that the caller has is not parsed again."""
        held = self._find("digest = ?", digest, known)
        if held is None:
            raise ApprovalError(f"manifest {digest.hex()} was not admitted by this node: approve it first")
        if held[1]:
            raise ApprovalError(f"manifest {digest.hex()} was withdrawn by this node")
        return held[0].manifest

    def never(self, digest: bytes, tell: Tell | None = None) -> bool:
        """See to it that a manifest that was not admitted never is, by no process; false where it was admitted.

        If `tell` fails, which is called unless it was admitted, nothing is recorded.
        """
        with self._using() as execute, transaction(self._database):
            execute(
                "INSERT OR IGNORE INTO never SELECT ? WHERE ? NOT IN (SELECT digest FROM admissions)", (digest, digest)
            )
            found = execute("SELECT 1 FROM never WHERE digest = ?", (digest,)).fetchone() is not None
            if found and tell is not None:
                tell()
        return found

    def withdraw(self, digest: bytes, tell: Tell | None = None) -> None:
        """Stop taking part. What was released stays released. If `tell` fails nothing is recorded."""
        with self._using() as execute, transaction(self._database):
            if not execute("UPDATE admissions SET withdrawn = 1 WHERE digest = ?", (digest,)).rowcount:
                raise ApprovalError(
                    f"manifest {digest.hex()} was not admitted by this node: there is nothing to withdraw"
                )
            if tell is not None:
                tell()

    def version(self) -> tuple[int, int]:
        """Changes whenever the record does, by this process or by another: microseconds, where reading it is not."""
        with self._using() as execute:
            others = execute("PRAGMA data_version").fetchone()[0]
            return others, self._database.total_changes

    def held(self, run: str) -> tuple[bytes, bool] | None:
        """Digest of the manifest that has this name, and whether it was withdrawn. Reads no manifest: how long that
        takes would grow with every run that there was.
        """
        with self._using() as execute:
            found = execute("SELECT digest, withdrawn FROM admissions WHERE run = ?", (run,)).fetchone()
        return None if found is None else (found[0], bool(found[1]))

    def name_of(self, digest: bytes) -> str | None:
        """Of the run that has this manifest."""
        with self._using() as execute:
            found = execute("SELECT run FROM admissions WHERE digest = ?", (digest,)).fetchone()
        return None if found is None else str(found[0])

    def by_hand(self, run: str) -> bool:
        """Whether a person let it in."""
        with self._using() as execute:
            found = execute("SELECT how FROM admissions WHERE run = ?", (run,)).fetchone()
        return found is not None and found[0] == BY_HAND

    def now_by_policy(self, digest: bytes) -> None:
        """What a person let in once the policy admits by itself: it does not rest on that person's word any more."""
        with self._using() as execute:
            execute(
                "UPDATE admissions SET how = ?, approved_by = ?, overridden = '' WHERE digest = ? AND how = ?",
                (BY_POLICY, BY_POLICY, digest, BY_HAND),
            )

    def all(self, known: Mapping[bytes, Manifest] = MappingProxyType({})) -> list[tuple[Admission, bool]]:
        """Every admission that this version can read and whether it was withdrawn, oldest first.

        Manifests that the caller has, by digest, are not parsed again.
        """
        with self._using() as execute, closing(execute(f"SELECT {_COLUMNS} FROM admissions ORDER BY rowid")) as rows:
            found = [row for row in rows.fetchall() if not of_an_earlier_version(row[2])]
            return [_admission(row, known.get(row[1])) for row in found]

    def rows(self) -> list[tuple[bytes, str]]:
        """Digest and name of every run that was ever admitted here, whatever became of it, oldest first."""
        with self._using() as execute:
            return [(digest, run) for digest, run in execute("SELECT digest, run FROM admissions ORDER BY rowid")]

    def canonical(self, digest: bytes) -> bytes:
        """The manifest's bytes, of whatever version."""
        with self._using() as execute:
            found = execute("SELECT manifest FROM admissions WHERE digest = ?", (digest,)).fetchone()
        if found is None or hashlib.sha256(found[0]).digest() != digest:
            raise ApprovalError(f"the record of manifest {digest.hex()} was altered: restore it from a backup")
        return bytes(found[0])

    def members(self, digest: bytes) -> frozenset[NodeName]:
        """Every node that the manifest names, of whatever version it is, and whether this node would admit it today."""
        try:
            return members_of(self.canonical(digest))
        except (ValueError, KeyError, TypeError, IdentityError):
            raise ApprovalError(
                f"the record of manifest {digest.hex()} was altered: restore it from a backup"
            ) from None

    def close(self) -> None:
        self._database.close()

    def _find(self, where: str, key: str | bytes, known: Manifest | None) -> tuple[Admission, bool] | None:
        with self._using() as execute:
            found = execute(f"SELECT {_COLUMNS} FROM admissions WHERE {where}", (key,)).fetchone()
            return None if found is None else _admission(found, known)

    @contextmanager
    def _using(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """One thread at a time; damage and a full disk are this record's errors, whatever SQLite makes of them."""
        try:
            with self._lock:
                yield self._database.execute
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise UnusableRecordError(
                f"the record of admissions cannot be used ({error}): free the disk, or restore it from a backup"
            ) from None


def members_of(canonical: bytes) -> frozenset[NodeName]:
    """Of a manifest of whatever version that was admitted or proposed here; other bytes raise many kinds of errors."""
    body = json.loads(canonical.partition(b"\n")[2])
    listed = [(Role.party, body["parties"]), (Role.aggregator, body["aggregators"])]
    listed.append((Role.coordinator, [body["coordinator"]]))
    return frozenset(NodeName(body["federation"], role, each["name"]) for role, tables in listed for each in tables)


_COLUMNS = "run, digest, manifest, how, approved_by, at, overridden, withdrawn"


def _admission(
    row: tuple[str, bytes, bytes, str, str, str, str, int], known: Manifest | None
) -> tuple[Admission, bool]:
    """`known` stands for the row's manifest where the row has its very bytes."""
    run, digest, data, how, approved_by, at, overridden, withdrawn = row
    if of_an_earlier_version(data):
        raise ApprovalError(f"run {run!r} was admitted by an earlier version of parley: choose a new name")
    try:
        manifest = known if known is not None and known.canonical == data else Manifest.from_canonical(data)
    except ManifestError as error:
        raise ApprovalError(f"the record of run {run!r} was altered ({error}): restore it from a backup") from None
    if manifest.digest != digest:
        raise ApprovalError(f"the record of run {manifest.run} was altered: its digest is not its manifest's")
    return Admission(manifest, how, approved_by, at, tuple(overridden.splitlines())), bool(withdrawn)
