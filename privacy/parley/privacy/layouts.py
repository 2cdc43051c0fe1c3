"""The layout of every durable SQLite file of a node, by number: which there are, and how an older one becomes ours.

The number is SQLite's own, `PRAGMA user_version`; 0 is a fresh file, or one from before it was numbered. A room with
a file migrates it when it opens it, in one transaction: a crash leaves the old layout or the new one, whole. A newer
layout than this release knows is refused by name, whoever opens it, for what it means is not known here.
"""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from parley.privacy.errors import PrivacyError
from parley.privacy.store import transaction


class LayoutError(PrivacyError):
    """The file was written by another release, and not by one before this."""


@dataclass(frozen=True)
class Layout:
    """Of one kind of file."""

    file: str
    """In the node's folder `state`."""
    newest: int
    changes: Mapping[int, str]
    """What makes each layout out of the one before, for its operator."""

    def changes_from(self, found: int) -> list[str]:
        """What a migration from there adds."""
        return [self.changes[number] for number in range(found + 1, self.newest + 1) if number in self.changes]


LEDGER = Layout("ledger.sqlite", 2, {2: "the salt in a file of its own"})
ADMISSIONS = Layout("admissions.sqlite", 1, {1: "the number of its layout"})
OUTBOX = Layout(
    "outbox.sqlite",
    4,
    {2: "a seal on every row", 3: "how far audits had come", 4: "what servers say of being put back from a backup"},
)
OPENINGS = Layout("openings.sqlite", 3, {2: "a seal on every row", 3: "whether it was put back from a backup"})
RUNS = Layout("runs.sqlite", 1, {1: "the number of its layout"})
ALL = (LEDGER, ADMISSIONS, OUTBOX, OPENINGS, RUNS)


def layout_of(database: sqlite3.Connection) -> int:
    """The number on the file."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def require_known(database: sqlite3.Connection, layout: Layout) -> int:
    """The number, unless it is newer than this release."""
    found = layout_of(database)
    if found > layout.newest:
        raise _unknown(layout, found)
    return found


def bring(
    database: sqlite3.Connection, layout: Layout, steps: Mapping[int, Callable[[sqlite3.Connection], object]]
) -> None:
    """To today's layout, in one transaction and by one process; `steps` are by the layout that they begin at."""
    if layout_of(database) == layout.newest:
        return
    with transaction(database):
        found = layout_of(database)
        if found == layout.newest:
            return  # another process was faster
        if found not in steps:
            raise _unknown(layout, found)
        steps[found](database)
        stamp(database, layout)


def stamp(database: sqlite3.Connection, layout: Layout) -> None:
    """Today's number, where the file already is what the number says."""
    database.execute(f"PRAGMA user_version = {layout.newest}")


def _unknown(layout: Layout, found: int) -> LayoutError:
    return LayoutError(
        f"{layout.file} has the unknown layout {found}, and this release of parley knows {layout.newest}: install the "
        "release that wrote it; docs/upgrade.md says how to go back"
    )
