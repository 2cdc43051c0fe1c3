"""Evidence against the servers of this party's runs: where it asks for it, and what it charges itself because of it.

The coordinator hands evidence over with a run's end, and may keep it back; so both servers are asked as well, over this
party's own connections: at the end of a run, whenever a server's word is missing or names evidence, while a round is
long in coming, and from time to time as long as this party has runs that could be concerned. What convicts a server
charges every run that it has served under audit, as a whole and for good, and this party takes part in nothing further
with it until its operator has answered.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

import grpc

from parley.federation.admission import AdmissionRecord
from parley.federation.errors import EvidenceFileError
from parley.federation.manifest import Manifest, of_an_earlier_version
from parley.federation.names import NodeName, Role
from parley.node import logs
from parley.node.docket import Docket, Pair, pair_of
from parley.node.evidence import EvidenceFolder, Held
from parley.node.pins import Pins
from parley.node.trail import Trail, says
from parley.party.books import open_ledger
from parley.party.errors import OutboxError
from parley.party.outbox import Outbox
from parley.party.settings import Settings
from parley.party.wire import GRACE_SECONDS, Wire
from parley.privacy.errors import LedgerRefusedError
from parley.v1 import aggregator_pb2

log = logs.logger()
LOOK_SECONDS = 60.0
"""Between two questions to one server, unless something speaks for asking at once."""
ASK_SECONDS = 5.0
MOST_ANSWERS = 4
"""Of one server to one question, eight pieces each: more come the next time."""
MOST_PIECES = 8
"""From a coordinator's answer."""
MOST_STARTED = 64
"""Runs that were begun and are not in the outbox: older ones are parsed once more if they come there."""
FAILURES = (EvidenceFileError, LedgerRefusedError, OutboxError, OSError)
"""Of this machine: what was found stays where it is, and is gone on with the next time."""


class Lookout:
    """One in a process; its threads share it."""

    def __init__(self, settings: Settings, node: NodeName, pins: Callable[[], Pins]) -> None:
        self._settings = settings
        self._runs: dict[bytes, Manifest | None] = {}
        """By digest; None for a run without audits."""
        self._started: dict[bytes, Manifest | None] = {}
        """The same of runs that this process has begun and that are not in the outbox yet."""
        self._asked: dict[NodeName, float] = {}
        self._lock = threading.Lock()
        self._trail = Trail.open(settings.trail, node)
        self.folder = EvidenceFolder(settings.state)
        self._docket = Docket(self.folder, pins, self._pairs, self._served, self._charge, self._note, self._noted)

    def close(self) -> None:
        self._trail.close()

    def catch_up(self) -> None:
        """At the start and after an account: what a crash has left undone, and what old evidence costs runs that the
        ledger has only since its account.
        """
        self._docket.catch_up()
        for held in self.folder.all():
            runs = [run for run in self.concerned() if held.server in run.identities(Role.aggregator)]
            with contextlib.closing(open_ledger(self._settings)) as ledger:
                ledger.charge_for_cheating(self._accounted(runs), held.digest)

    def hand_over(self, pieces: Iterable[bytes], source: NodeName) -> None:
        """What somebody gives this party as evidence."""
        given = [data for data, _ in zip(pieces, range(MOST_PIECES), strict=False)]
        try:
            self._docket.take(given, source)
        except FAILURES as error:
            log.error("evidence is not gone on with", peer=source, error=error)

    def begun(self, manifest: Manifest) -> None:
        """Not to be parsed here once more."""
        with self._lock:
            self._started[manifest.digest] = _if_audited(manifest)
            while len(self._started) > MOST_STARTED:  # whoever leads runs can propose without end
                del self._started[next(iter(self._started))]

    def look(self, wire: Wire, servers: Collection[NodeName], stop: threading.Event, at_once: bool = False) -> None:
        """Ask these servers; whoever does not answer is asked again another time."""
        for server in servers:
            if self._due(server, at_once) and not stop.is_set():
                with contextlib.suppress(grpc.RpcError), wire.stopping(stop):
                    self._ask(wire, server)

    def concerned(self) -> list[Manifest]:
        """This party's runs whose batches are audited, over or not."""
        with contextlib.closing(Outbox(self._settings.outbox)) as outbox:
            held = outbox.runs()
        with self._lock:
            self._runs = {each.digest: self._runs[each.digest] for each in held if each.digest in self._runs}
            for each in held:
                if each.digest in self._started:
                    self._runs[each.digest] = self._started.pop(each.digest)
                elif each.digest not in self._runs:
                    self._runs[each.digest] = _audited(each.manifest)
            return [run for run in self._runs.values() if run is not None]

    def _due(self, server: NodeName, at_once: bool) -> bool:
        with self._lock:
            last = self._asked.get(server)
            if last is not None and not at_once and time.monotonic() < last + LOOK_SECONDS:
                return False
            self._asked[server] = time.monotonic()
            return True

    def _ask(self, wire: Wire, server: NodeName) -> None:
        for _ in range(MOST_ANSWERS):
            request = aggregator_pb2.EvidenceRequest(known=self._docket.known())
            pieces = wire.stubs[server].Evidence(request, timeout=ASK_SECONDS + GRACE_SECONDS).evidence
            self.hand_over(pieces, server)
            if len(pieces) < MOST_PIECES:
                return

    def _pairs(self) -> set[Pair]:
        return {pair_of(run) for run in self.concerned()}

    def _served(self, server: NodeName) -> list[str]:
        """Runs that this party was admitted to, by their manifests: whoever proposes runs can send another one under
        the name of a run that other servers have served, and it is refused, and in the outbox.

        Those that servers accounted for were admitted in a state that is lost: the ledger has their manifests.
        """
        runs = [run for run in self.concerned() if server in run.identities(Role.aggregator)]
        with contextlib.closing(AdmissionRecord(self._settings.admissions)) as record:
            admitted = [run.run for run in runs if (record.held(run.run) or (b"",))[0] == run.digest]
        return list(dict.fromkeys((*admitted, *self._accounted(runs))))

    def _accounted(self, runs: Iterable[Manifest]) -> list[str]:
        """By the ledger's names; a ledger that is not there yet has none."""
        if not self._settings.ledger.exists():
            return []
        digests = {run.digest.hex() for run in runs}
        with contextlib.closing(open_ledger(self._settings)) as ledger:
            return [each.name for each in ledger.runs.values() if each.accounted and each.manifest in digests]

    def _charge(self, held: Held) -> None:
        """Free where it was done before; runs that were never charged here cost nothing now."""
        with contextlib.closing(open_ledger(self._settings)) as ledger:
            charged = ledger.charge_for_cheating(held.runs, held.digest)
        for run in charged:
            log.error("a server was caught, and the run is charged for it", run=run, peer=held.server)

    def _noted(self, digest: str) -> bool:
        return says(self._settings.trail, "evidence.kept", digest)

    def _note(self, event: str, peer: NodeName | None = None, **fields: Any) -> None:
        self._trail.append(event, durable=True, peer=peer, **fields)
        if event != "evidence.kept":
            log.warning("what was handed over as evidence does nothing", peer=peer, kind=fields["kind"])


def _audited(canonical: bytes) -> Manifest | None:
    if of_an_earlier_version(canonical):
        return None
    return _if_audited(Manifest.from_canonical(canonical))


def _if_audited(manifest: Manifest) -> Manifest | None:
    return manifest if manifest.noise.parts.audit is not None else None
