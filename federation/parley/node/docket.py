"""Evidence that others hand to this node: what is looked at, what is believed, and what follows from it.

Nobody who hands it over is believed. A server is convicted here only if the judge says so, by a key that this node has
pinned for that server now, in a session of two servers that one of its own covert runs names. Everything else is
counted and forgotten. What convicts a server is on the disk before anything is done about it, and what is done is done
again after a crash until it is on the disk as well:

    the file, its record with the runs that are held against it, the ledger, the trail, the record that says so

At every start the ledger is told again of everything, for an older one may have been put back; it counts each once.

As long as evidence against a server waits for the operator, more against it adds nothing and is not kept: whoever lets
itself be caught again and again would fill the folder, so that evidence against somebody else finds no room.

To be looked at costs a tenth of a second of a core, so that whoever sends much has little of it looked at: each source
has its own allowance, and uses up nobody else's.
"""

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from parley.federation.errors import PinError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.mpc import crash
from parley.mpc.covert import COVERT_LABEL
from parley.mpc.errors import MpcError
from parley.mpc.evidence import Evidence, judge
from parley.node import bell, logs, signatures
from parley.node.evidence import MOST_BYTES, EvidenceFolder, Held, digest_of, now
from parley.node.pins import Pins

log = logs.logger()
Pair = tuple[NodeName, NodeName]
"""Server A, server B."""
Basis = tuple[frozenset[Pair], frozenset[bytes]]
"""The sessions and keys that something was judged by."""
ALLOWANCE, REFILL_SECONDS = 8, 60.0
"""Pieces of evidence of one source that are judged at once, and after what time one more."""
MOST_REMEMBERED = 4096
MOST_KNOWN = 64
CHEAP = ("too_long", "too_much", "waiting")
MAY_CHANGE = ("other_session", "other_key")
"""With this node's runs and pins."""
UNSEEN: Basis = (frozenset(), frozenset((b"",)))
"""No node's."""
_judging = threading.Lock()
"""One at a time in a process: each replays a batch."""


class IgnoredError(Exception):
    """Why something that was handed over as evidence does nothing here; its `kind` is for logs."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def pair_of(manifest: Manifest) -> Pair:
    first, second = manifest.identities(Role.aggregator)
    return first, second


def context_of(pair: Pair) -> bytes:
    """What two servers' sessions are bound to: 32 bytes, the same on both and for whoever judges them."""
    text = "\n".join(("parley covert context 1", pair[0].federation, pair[0].uri, pair[1].uri, "covert"))
    return hashlib.sha256(text.encode()).digest()


def signed_by(key: bytes, statement: bytes, signature: bytes) -> bool:
    """Whether that key has signed a batch's record; False where it is no key."""
    try:
        return signatures.signed_by(key, COVERT_LABEL, statement, signature)
    except PinError:
        return False


def incident_of(evidence: Evidence) -> str:
    """One for all evidence of one session against one key: a signature can be spelled in two ways."""
    return hashlib.sha256(b"parley incident 1\n" + evidence.accused_key + evidence.session).hexdigest()


def accused(evidence: Evidence, pairs: Iterable[Pair], pins: Pins) -> NodeName:
    """Whom it is about; an IgnoredError where it is nobody that this node knows by key and by a run."""
    pair = next((pair for pair in pairs if context_of(pair) == evidence.context), None)
    if pair is None:
        raise IgnoredError("other_session")
    server = pair[evidence.role]
    if evidence.accused_key not in pins.of(server):
        raise IgnoredError("other_key")
    return server


def require_guilty(evidence: Evidence) -> None:
    """Costs a tenth of a second of a core."""
    with _judging:
        verdict = judge(evidence, signed_by)
    if not verdict.guilty or verdict.key != evidence.accused_key:
        raise IgnoredError("no_verdict")


@dataclass
class _Allowance:
    left: float = ALLOWANCE
    at: float = field(default_factory=time.monotonic)

    def take(self) -> bool:
        now = time.monotonic()
        self.left = min(ALLOWANCE, self.left + (now - self.at) / REFILL_SECONDS)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Docket:
    """One node's. Threads may share it."""

    def __init__(
        self, folder: EvidenceFolder, pins: Callable[[], Pins], pairs: Callable[[], Iterable[Pair]],
        served: Callable[[NodeName], Sequence[str]], charge: Callable[[Held], None], note: Callable[..., object],
        noted: Callable[[str], bool],
    ) -> None:  # fmt: skip
        """`pairs` are of this node's covert runs, `served` names those of a server; `charge` puts a conviction's runs
        into the ledger, durably and as often as it is called; `note` is the log and the trail, `noted` whether the
        trail has the evidence of that digest already.
        """
        self.folder, self._pins, self._pairs = folder, pins, pairs
        self._served, self._charge, self._note, self._noted = served, charge, note, noted
        self._lock = threading.Lock()
        self._allowances: dict[NodeName, _Allowance] = {}
        self._looked_at: dict[str, Basis | None] = {}
        """Digests of what did nothing, oldest first; and by what, where that may come to another end by others."""
        self.ignored: Counter[str] = Counter()
        """By kind; public."""

    def catch_up(self) -> None:
        """At the start: whatever a crash has left undone, and a word on what still waits for the operator."""
        with self._lock:
            for held in self.folder.all():
                if held.charged:
                    self._charge(held)
            # What was kept comes first: another audit of its session may have been going on: both have one record.
            for digest in self.folder.unread():
                try:
                    self._take(self.folder.read(digest))
                except IgnoredError as error:
                    log.warning("kept evidence convicts nobody who is known", digest=digest, kind=error.kind)
            for digest, data in self.folder.waiting().items():
                self._judge_at_last(digest, data)
            self._finish()
            for held in self.folder.pending():
                log.warning("evidence waits for parley evidence answer", digest=held.digest, peer=held.server)
                bell.ring(bell.EVIDENCE, digest=held.digest, peer=held.server)

    def made(self, evidence: Evidence) -> Held | None:
        """This node's own, of an audit: on the disk first, whatever becomes of it, and judged like anybody else's.

        A fault of this machine may accuse the other one: then nothing follows from it.
        """
        with self._lock:
            self._finish()
            before = self.folder.all()
            if any(held.incident == incident_of(evidence) for held in before):
                return None
            data = evidence.encoded()
            try:
                # Of several noise workers that catch the same server at once: what is kept beside the first would be
                # taken at a start after the operator's answer, and held against runs that have no part in it.
                if not self._adds_nothing(evidence, before):
                    self.folder.keep(data)
                return self._take(data)
            except IgnoredError as error:
                self._ignore(error.kind)
                return None

    def hold(self, evidence: Evidence) -> Callable[[], None]:
        """What an audit would prove: on the disk, until what comes back is called."""
        digest = self.folder.hold(evidence.encoded())
        return lambda: self.folder.forget(digest)

    def _judge_at_last(self, digest: str, data: bytes) -> None:
        """Of an audit whose verdict this node did not live to hear."""
        try:
            self._take(data)
        except IgnoredError as error:
            log.info("an audit that a crash cut short found nothing", digest=digest, kind=error.kind)
            if error.kind in ("other_session", "other_key"):
                return  # it may convict a key that is pinned again one day
        self.folder.forget(digest)

    def known(self) -> list[bytes]:
        """For whoever is asked for more."""
        kept = [held.digest for held in self.folder.all()]
        basis = self._basis()
        idle = [digest for digest, by in tuple(self._looked_at.items()) if by in (None, basis)]
        return [bytes.fromhex(each) for each in [*idle, *kept][-MOST_KNOWN:]]

    def take(self, pieces: Iterable[bytes], source: NodeName) -> list[Held]:
        """What of it is new and convicts somebody; all of it is done when this returns."""
        found = []
        with self._lock:
            self._finish()
            for data in pieces:
                try:
                    held = self._considered(data, source)
                except IgnoredError as error:
                    self._ignore(error.kind, source)
                else:
                    found += [held] if held is not None else []
        return found

    def _ignore(self, kind: str, source: NodeName | None = None) -> None:
        self.ignored[kind] += 1
        if kind not in CHEAP:  # what costs nothing to send is not written down each time
            self._note("evidence.ignored", peer=source, kind=kind)

    def _considered(self, data: bytes, source: NodeName) -> Held | None:
        if len(data) > MOST_BYTES:
            raise IgnoredError("too_long")
        digest, basis = digest_of(data), self._basis()
        if self._looked_at.get(digest, UNSEEN) in (None, basis) or self.folder.find(digest) is not None:
            return None
        if not self._allowances.setdefault(source, _Allowance()).take():
            raise IgnoredError("too_much")
        try:
            return self._take(data)
        except IgnoredError as error:
            if error.kind != "waiting":
                self._remember(digest, basis if error.kind in MAY_CHANGE else None)
            raise

    def _basis(self) -> Basis:
        pairs, pins = frozenset(self._pairs()), self._pins()
        return pairs, frozenset(key for pair in pairs for server in pair for key in pins.of(server))

    def _remember(self, digest: str, by: Basis | None) -> None:
        self._looked_at.pop(digest, None)
        self._looked_at[digest] = by
        for oldest in list(self._looked_at)[: len(self._looked_at) - MOST_REMEMBERED]:
            del self._looked_at[oldest]

    def _take(self, data: bytes) -> Held:
        try:
            evidence = Evidence.decode(data)
        except MpcError:
            raise IgnoredError("malformed") from None
        incident, before = incident_of(evidence), self.folder.all()
        if any(held.incident == incident for held in before):
            raise IgnoredError("known")
        server = accused(evidence, self._pairs(), self._pins())
        if self._waits(server, before):
            raise IgnoredError("waiting")
        require_guilty(evidence)
        digest = self.folder.keep(data)
        held = Held(digest, server, incident, now(), tuple(self._served(server)))
        self.folder.note(held)
        if late := tuple(run for run in self._served(server) if run not in held.runs):
            # Whoever has charged a run looks here afterwards, so that it is found from this side or from that one.
            held = self.folder.change(digest, runs=(*held.runs, *late))
        return self._settle(held)

    def _waits(self, server: NodeName, before: Sequence[Held]) -> bool:
        """Whether something that no operator has answered holds all of a server's runs against it already."""
        runs = set(self._served(server))
        return any(held.pending and held.server == server and runs <= set(held.runs) for held in before)

    def _adds_nothing(self, evidence: Evidence, before: Sequence[Held]) -> bool:
        try:
            return self._waits(accused(evidence, self._pairs(), self._pins()), before)
        except IgnoredError:  # it may convict somebody one day
            return False

    def _finish(self) -> None:
        """What a crash or a full disk has left half done."""
        for held in self.folder.all():
            if not held.charged:
                self._settle(held, self._noted(held.digest))

    def _settle(self, held: Held, noted: bool = False) -> Held:
        """The record says last that all is done: until then the next start does it again, and the trail has it once."""
        self._charge(held)
        crash.point("evidence.charged")
        if not noted:
            log.error("a server was caught, see parley evidence list", peer=held.server, digest=held.digest)
            self._note("evidence.kept", peer=held.server, digest=held.digest, runs=len(held.runs))
        crash.point("evidence.noted")
        found = self.folder.change(held.digest, charged=True)
        if found.pending:
            bell.ring(bell.EVIDENCE, digest=held.digest, peer=held.server)
        return found
