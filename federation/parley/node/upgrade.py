"""A node's files, brought to this release's layouts: tried on a private copy first, done with a copy kept beside.

    NODE/state/upgrade-check/             while it is tried: mode 700, wiped afterwards
    NODE/state/NAME.before-upgrade        from the upgrade until the node's next start

A copy of a ledger un-spends what was spent after it, and one of an outbox holds answers that are to be erased. So no
copy outlives its use: what a check has left is wiped by the next check and by the node's start, and the copies of an
upgrade by the start, for from then on there is no way back. An earlier release wipes none: so what an upgrade has made
is put back only where it is still, bit for bit, what the upgrade made.

Every step can be killed and taken again: a copy is whole or not there, and each file migrates in one transaction.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from parley.errors import ParleyError
from parley.federation.manifest import of_an_earlier_version
from parley.federation.names import Role
from parley.node.errors import NodeError
from parley.privacy.durable import PRIVATE, force, replace_durably
from parley.privacy.layouts import ALL, Layout, layout_of, require_known
from parley.privacy.store import opened_to_read

CHECK, LOCK, BEFORE, MADE, PART = "upgrade-check", "lock", ".before-upgrade", ".as-upgraded", ".part"
BESIDE = (".head", ".salt")
"""What a ledger has beside it."""
SQLITE = ("-wal", "-shm", "-journal")
FILES = tuple(layout.file for layout in ALL)
COPIES = tuple(f"{file}{ending}" for file in FILES for ending in ("", *BESIDE))
OURS = (*(f"{copy}{more}" for copy in COPIES for more in ("", PART, *SQLITE, ".lock")), LOCK)
"""All that a check writes into its folder."""
ROOM = 3
"""Times a file's bytes: its copy, SQLite's log while it migrates, and the file's own growth."""
ORDER = ("both aggregators", "every party", "the coordinator")
"""Who answers comes before who asks; whoever begins to use what is new, by a manifest or a list, comes last."""
OPEN_RUNS = {
    Role.party: ("outbox.sqlite", "SELECT run, manifest FROM runs WHERE state NOT IN ('left', 'settled', 'refused')"),
    Role.aggregator: ("admissions.sqlite", "SELECT run, manifest FROM admissions WHERE withdrawn = 0"),
    Role.coordinator: (
        "runs.sqlite",
        "SELECT run, manifest FROM runs WHERE state NOT IN ('finished', 'failed', 'refused')",
    ),
}
IN_USE = "{} is open in another process, such as `parley page`: stop it first"
Open = Callable[[Path], object]
"""Opens a file as the node does, which migrates it, and closes it."""


class UpgradeError(NodeError):
    """The files cannot be upgraded as they are."""


@dataclass(frozen=True)
class Change:
    """What becomes of one file."""

    file: str
    found: int
    newest: int
    adds: tuple[str, ...]
    size: int
    seconds: float = 0.0
    """That the migration of its copy took."""

    @property
    def due(self) -> bool:
        return self.found != self.newest


@dataclass(frozen=True)
class Rehearsal:
    """What a check has found."""

    changes: tuple[Change, ...]
    needed: int
    free: int
    runs: tuple[str, ...]
    """That are open, and go on after the upgrade."""
    in_the_way: tuple[str, ...]
    """That this release cannot go on with."""
    problem: str = ""
    """Why the migration would fail."""

    @property
    def well(self) -> bool:
        return not self.problem and not self.in_the_way and self.free >= self.needed


def changes(state: Path) -> list[Change]:
    """Of every file that is there, in a fixed order; a PrivacyError for one of a newer release."""
    found = []
    for layout in ALL:
        path = state / layout.file
        if path.exists():
            found.append(_change(path, layout))
    return found


def _change(path: Path, layout: Layout) -> Change:
    try:
        with closing(opened_to_read(path)) as database:
            number = require_known(database, layout)
    except sqlite3.Error as error:
        raise UpgradeError(f"{path.name} cannot be read ({error}): restore it from a backup") from None
    size = sum(each.stat().st_size for each in (path, path.with_name(f"{path.name}-wal")) if each.exists())
    return Change(path.name, number, layout.newest, tuple(layout.changes_from(number)), size)


def rehearse(state: Path, role: Role, openers: Mapping[str, Open]) -> Rehearsal:
    """Everything that an upgrade does, on copies; the node may run meanwhile, and nothing of it is changed."""
    with _private(state) as folder:
        found = changes(state)
        free, needed = shutil.disk_usage(state).free, ROOM * sum(each.size for each in found)
        if free < needed:
            return Rehearsal(tuple(found), needed, free, (), (), "the disk has too little room, even to try it")
        tried, problem = [], ""
        for each in found:
            _copy(state / each.file, folder / each.file)
            began = time.monotonic()
            try:
                openers[each.file](folder / each.file)
            except (ParleyError, OSError, sqlite3.Error) as error:
                problem = problem or f"{each.file}: {error}"
            tried.append(replace(each, seconds=time.monotonic() - began))
        runs, stuck = open_runs(folder, role)
        return Rehearsal(tuple(tried), needed, free, runs, stuck, problem)


def open_runs(folder: Path, role: Role) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """By name: those that go on, and those whose manifests only an earlier release reads."""
    file, query = OPEN_RUNS[role]
    if not (folder / file).exists():
        return (), ()
    with closing(opened_to_read(folder / file)) as database:
        rows: list[tuple[str, bytes]] = database.execute(query).fetchall()
    over = set()
    if role is Role.aggregator and (folder / "openings.sqlite").exists():
        with closing(opened_to_read(folder / "openings.sqlite")) as database:
            over = {run for (run,) in database.execute("SELECT run FROM ended")}
    rows = [(run, manifest) for run, manifest in rows if run not in over]
    stuck = tuple(run for run, manifest in rows if of_an_earlier_version(manifest))
    return tuple(run for run, _ in rows if run not in stuck), stuck


def carry_out(
    state: Path, role: Role, openers: Mapping[str, Open], reached: Callable[[str], object] = lambda step: None
) -> list[Change]:
    """What was changed. For whoever holds the node's lock; `reached` is told of every step that is durable."""
    found = [each for each in changes(state) if each.due]
    _, stuck = open_runs(state, role)
    if found and stuck:
        raise UpgradeError(
            f"{', '.join(stuck)} can only be gone on with by the release that began it: finish or stop it there first"
        )
    if (free := shutil.disk_usage(state).free) < (needed := ROOM * sum(each.size for each in found)):
        raise UpgradeError(f"{free >> 20} MiB are free and {(needed >> 20) + 1} are needed: free the disk first")
    for each in found:
        _fold(state / each.file)
    for each in found:  # all of them before the first changes: the way back is whole, or there is none to go
        _copy(state / each.file, state / f"{each.file}{BEFORE}", BEFORE)
        reached(f"copied {each.file}")
    for each in found:
        openers[each.file](state / each.file)
        _fold(state / each.file)
        reached(f"migrated {each.file}")
        replace_durably(state / f"{each.file}{MADE}", _digest(state / each.file))
    return found


def undo(state: Path, reached: Callable[[str], object] = lambda step: None) -> list[str]:
    """Put back what was before; for whoever holds the node's lock. Only until the node's start, which wipes it."""
    held = [file for file in FILES if (state / f"{file}{BEFORE}").exists()]
    if not held:
        raise UpgradeError(
            "there is nothing to go back to: no upgrade changed a file here, or the node was started since"
        )
    for file in held:
        _fold(state / file)  # a log that is unlinked below, and a kill after it, would leave half of the file
        if _digest(state / file) not in (_noted(state / f"{file}{MADE}"), _digest(state / f"{file}{BEFORE}")):
            raise UpgradeError(
                f"{file} is not as the upgrade left it: the node was started since, or the upgrade did not end. To go "
                "back would forget what was spent: start this release"
            )
    for file in held:
        for ending in SQLITE:
            (state / f"{file}{ending}").unlink(missing_ok=True)
        for ending in BESIDE:
            if (before := state / f"{file}{ending}{BEFORE}").exists():
                before.replace(state / f"{file}{ending}")
        (state / f"{file}{BEFORE}").replace(state / file)  # last: as long as it is there, this is done again
        (state / f"{file}{MADE}").unlink(missing_ok=True)
        force(state)
        reached(f"put back {file}")
    return held


def forget(state: Path) -> None:
    """At a node's start, under its lock: what an upgrade or a check has left is of no further use, and secret.

    But not while the file itself is damaged: its copy may be all that there is.
    """
    for file in FILES:
        if (state / f"{file}{BEFORE}").exists() and not _sound(state / file):
            raise UpgradeError(f"{file} is damaged, and {file}{BEFORE} is kept beside it: put back a backup")
    for copy in COPIES:
        for ending in (BEFORE, f"{BEFORE}{PART}"):
            _wipe(state / f"{copy}{ending}")
    for file in FILES:
        (state / f"{file}{MADE}").unlink(missing_ok=True)
    if (state / CHECK).exists():
        with contextlib.suppress(UpgradeError), _private(state):
            pass


# ------------------------------------------------------------ copies


def _fold(path: Path) -> None:
    """All that is committed into the file itself; an UpgradeError while another process keeps it from that."""
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise UpgradeError(f"{path.name} cannot be read ({error}): restore it from a backup") from None
    if (log := path.with_name(f"{path.name}-wal")).exists() and log.stat().st_size:
        raise UpgradeError(IN_USE.format(path.name))


def _sound(path: Path) -> bool:
    try:
        with closing(opened_to_read(path)) as database:
            return bool(database.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok")
    except (OSError, sqlite3.Error):
        return False


def _copy(source: Path, target: Path, ending: str = "") -> None:
    """Whole or not there, mode 600, on the disk. What lies beside comes first: a head may lag behind its ledger."""
    if target.exists():  # of a run that was killed: the file may be migrated meanwhile, its copy is not
        with closing(opened_to_read(source)) as now, closing(_plain(target)) as kept:
            if layout_of(now) != layout_of(kept):
                return
    for beside in BESIDE:
        path = source.with_name(source.name + beside)
        copy = source.with_name(source.name + beside + ending) if ending else target.with_name(target.name + beside)
        if path.exists():
            _write(copy, partial(_bytes, path))

    def backup(part: Path) -> None:
        with closing(opened_to_read(source)) as database, closing(sqlite3.connect(part)) as made:
            database.backup(made)
            made.execute("PRAGMA journal_mode = DELETE")

    _write(target, backup)


def _bytes(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())


def _digest(path: Path) -> str:
    """Of the file and of what SQLite has not put into it yet."""
    found = hashlib.sha256()
    for each in (path, path.with_name(f"{path.name}-wal")):
        if each.exists() and each.stat().st_size:
            with each.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def _noted(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _write(target: Path, fill: Callable[[Path], object]) -> None:
    part = target.with_name(target.name + PART)
    _wipe(part)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
    fill(part)
    force(part)
    part.replace(target)
    force(target.parent)


def _plain(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


@contextmanager
def _private(state: Path) -> Iterator[Path]:
    """The check's folder, empty, for one check at a time; nothing of it is left."""
    folder = state / CHECK
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.geteuid():
        raise UpgradeError(f"{folder} is no folder of this user's: remove it")
    folder.chmod(0o700)
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UpgradeError("another check is under way on this folder: wait until it has ended") from None
        try:
            _empty(folder)
            yield folder
        finally:
            _empty(folder)
            _wipe(folder / LOCK)
            with contextlib.suppress(OSError):  # somebody else has put a file there: it is theirs
                folder.rmdir()
    finally:
        os.close(handle)


def _empty(folder: Path) -> None:
    for name in OURS:
        if name != LOCK:
            _wipe(folder / name)


def _wipe(path: Path) -> None:
    """Overwritten, then gone; a link is only removed."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError:
        path.unlink()
        return
    try:
        left = os.fstat(handle).st_size
        while left > 0:
            left -= os.write(handle, bytes(min(left, 1 << 20)))
        os.fsync(handle)
    finally:
        os.close(handle)
    path.unlink(missing_ok=True)
