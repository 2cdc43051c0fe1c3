"""What is in a party's folder, for its pages: read-only, whether or not the node is running.

Each store is read by itself. One that is half written, damaged or not there yet is a line on the page and hides no
other; a file that is read again only when it has changed makes a page quick beside a long trail.
"""

import os
import shlex
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from parley.errors import ParleyError
from parley.federation.admission import Admission, AdmissionRecord
from parley.federation.manifest import Manifest, of_an_earlier_version
from parley.federation.names import NodeName
from parley.node.evidence import EvidenceFolder, Held
from parley.node.node_file import PartyNode
from parley.party.ends import kept
from parley.party.outbox import VERIFYING, WAITING, Outbox, RunState, Seen, Sent
from parley.party.overview import data_sets_of
from parley.party.process import settings_of
from parley.party.review import cap_of
from parley.party.settings import Settings
from parley.party.standing import holds, refused_here
from parley.privacy.filters import Cap, Policy
from parley.privacy.ledger_copy import copied
from parley.privacy.ledger_state import Population, Run
from parley.report.content import in_the_trail
from parley.report.facts import Dates, budgets
from parley.v1 import common_pb2

T = TypeVar("T")
LOCKS = Path("/proc/locks")
MOST_PROBLEM = 500


@dataclass(frozen=True)
class Books:
    """What the ledger says; nothing where there is none yet."""

    policy: Policy = field(default_factory=Policy)
    populations: Mapping[str, Population] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)
    budgets: tuple[dict[str, Any], ...] = ()
    head: str = ""


@dataclass(frozen=True)
class Runs:
    """What the outbox says."""

    states: tuple[RunState, ...] = ()
    sent: Mapping[bytes, Sent] = field(default_factory=dict)
    seen: Mapping[bytes, Seen] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """The folder at one moment."""

    states: tuple[RunState, ...] = ()
    """As they were proposed, oldest first; of an earlier version too."""
    sent: Mapping[bytes, Sent] = field(default_factory=dict)
    seen: Mapping[bytes, Seen] = field(default_factory=dict)
    admissions: Mapping[bytes, tuple[Admission, bool]] = field(default_factory=dict)
    """By the manifest's digest, and whether it was withdrawn."""
    books: Books = field(default_factory=Books)
    dates: Mapping[str, Dates] = field(default_factory=dict)
    evidence: tuple[Held, ...] = ()
    refused: frozenset[bytes] = frozenset()
    """Manifests that this institution's people have refused for good."""
    lapsed: frozenset[bytes] = frozenset()
    """Approved by reviewers whose signatures count no more."""
    data: tuple[dict[str, Any], ...] = ()
    cap: Cap | None = None
    """What a population is given of which nothing was charged yet."""
    problems: tuple[str, ...] = ()
    """What could not be read, a line each."""


class Folder:
    """One party's. Not for several threads at once."""

    def __init__(self, node: PartyNode) -> None:
        self.node = node
        self.settings: Settings = settings_of(node)
        self.name: NodeName = node.identity.load().name
        self.path = shlex.quote(str(node.folder))
        """For commands that people paste."""
        self._manifests: dict[bytes, Manifest] = {}
        self._trail: tuple[tuple[int, int], dict[str, Dates]] | None = None

    def manifest(self, held: RunState) -> Manifest | None:
        """Parsed once; None of an earlier version, and of what is none."""
        if held.digest not in self._manifests:
            if of_an_earlier_version(held.manifest):
                return None
            self._manifests[held.digest] = Manifest.from_canonical(held.manifest)
        return self._manifests[held.digest]

    def read(self) -> Snapshot:
        """All of it."""
        settings, problems = self.settings, list[str]()

        def part(what: str, function: Callable[[], T], otherwise: T) -> T:
            try:
                return function()
            except (ParleyError, OSError, sqlite3.Error) as error:
                problems.append(f"{what}: {error}"[:MOST_PROBLEM])
            except Exception as error:  # a page is there to say so, whatever lies in a folder: its class says enough
                problems.append(f"{what} cannot be read ({type(error).__name__}): restore it from a backup")
            return otherwise

        runs = part("The outbox", self._outbox, Runs())
        dates = part("The audit trail", self._dates, dict[str, Dates]())
        return Snapshot(
            states=runs.states,
            sent=runs.sent,
            seen=runs.seen,
            admissions=part("The record of admissions", self._admissions, {}),
            books=part("The ledger", lambda: self._books(dates), Books()),
            dates=dates,
            evidence=part("The evidence", self._evidence, ()),
            refused=part("The reviews", lambda: self._where(runs, refused_here), frozenset[bytes]()),
            lapsed=part("The reviews", lambda: self._where(runs, lambda *run: not holds(*run)), frozenset[bytes]()),
            data=part("The records", lambda: tuple(data_sets_of(settings)), ()),
            cap=part("The reviews", lambda: cap_of(settings), settings.cap),
            problems=tuple(dict.fromkeys(problems)),
        )

    def ends(self, run: Run | None) -> tuple[common_pb2.SignedEnd, ...]:
        """Both aggregators' words of how many sums were opened, that the ledger was settled on."""
        return () if run is None or run.proved is None else kept(self.settings.state, run.proved[1])

    def _outbox(self) -> "Runs":
        if not self.settings.outbox.exists():
            return Runs()
        with closing(Outbox(self.settings.outbox, read_only=True)) as outbox:
            states = tuple(outbox.runs())
            sent = {held.digest: outbox.sent(held.digest) for held in states}
            seen = {held.digest: found for held in states if (found := outbox.seen(held.digest)) is not None}
        for held in states:
            self.manifest(held)
        return Runs(states, sent, seen)

    def _admissions(self) -> dict[bytes, tuple[Admission, bool]]:
        if not self.settings.admissions.exists():
            return {}
        with closing(AdmissionRecord(self.settings.admissions, read_only=True)) as record:
            found = record.all(self._manifests)
        return {admission.manifest.digest: (admission, withdrawn) for admission, withdrawn in found}

    def _books(self, dates: Mapping[str, Dates]) -> Books:
        if not self.settings.ledger.exists():
            return Books()
        with copied(self.settings.ledger) as ledger:
            head = str(ledger.verify())
            return Books(ledger.policy, ledger.populations, ledger.runs, budgets(ledger, dates), head)

    def _dates(self) -> dict[str, Dates]:
        try:
            status = self.settings.trail.stat()
        except FileNotFoundError:
            return {}
        stamp = status.st_mtime_ns, status.st_size
        if self._trail is None or self._trail[0] != stamp:
            self._trail = stamp, in_the_trail(self.settings.trail)[1]
        return self._trail[1]

    def _where(self, runs: Runs, holds_of: Callable[[Settings, Manifest], bool]) -> frozenset[bytes]:
        """Of runs that are not decided, or not begun."""
        found = [(held.digest, self.manifest(held)) for held in runs.states if held.state in (WAITING, VERIFYING)]
        return frozenset(digest for digest, made in found if made is not None and holds_of(self.settings, made))

    def _evidence(self) -> tuple[Held, ...]:
        folder = EvidenceFolder(self.settings.state)
        return tuple(folder.all()) if folder.path.exists() else ()


def lock_is_held(path: Path) -> bool | None:
    """Whether a process of this machine has the node's lock; None where that cannot be told.

    The lock itself is not tried: for a moment that would keep a node from starting.
    """
    try:
        wanted = path.stat()
        place = f"{os.major(wanted.st_dev):02x}:{os.minor(wanted.st_dev):02x}:{wanted.st_ino}"
        return any(line.split()[1] == "FLOCK" and place in line.split() for line in LOCKS.read_text().splitlines())
    except FileNotFoundError:
        return False if not path.exists() else None
    except (OSError, IndexError):
        return None
