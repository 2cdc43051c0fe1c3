"""One run at one party, from its manifest to its end: a thread that can die at any moment and be started again.

What is durable decides what happens next: the admission record, the ledger and the outbox. The ledger is charged when
the first round is asked, on both aggregators' word that they admitted the run. The order of a round is computed,
outbox, ledger, sent; whatever a crash cuts off is made up from the outbox, never computed again.
"""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from functools import cache

import grpc
import numpy as np
from numpy.typing import NDArray

from parley.compute.engine import RayEngine
from parley.compute.errors import EngineLateError, EngineStoppedError
from parley.federation.errors import FederationError, TrailError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import BLIND_BYTES, half_a, upload_digest
from parley.learning.contributor import Contributor, Query
from parley.learning.errors import QueryError
from parley.models.apart import Apart
from parley.models.extractor_apart import ExtractorsApart
from parley.mpc import crash
from parley.mpc.randomness import SEED_BYTES, random_bytes
from parley.mpc.ring import share
from parley.node import bell, logs
from parley.node.evidence import Stamp
from parley.node.statements import StatementError
from parley.party.admission import UNSEALED, Gate, Ready, Waiting
from parley.party.cluster import over_cluster
from parley.party.errors import AskAgainError, OutboxError, RefusedRunError, StoppedError, refused
from parley.party.history import History, beginning
from parley.party.lookout import Lookout
from parley.party.memory import Recollection
from parley.party.newest import Newest
from parley.party.outbox import ENDED, JOINED, LEFT, REFUSED, SETTLED, WAITING, Answer
from parley.party.questions import LEAVE, Points, check_form
from parley.party.settlement import settle
from parley.party.speed import Speed
from parley.party.uploads import Uploader
from parley.party.wire import GRACE_SECONDS, Pauses, Wire, passing, wait_seconds
from parley.privacy.errors import LedgerRefusedError, PrivacyError
from parley.v1 import aggregator_pb2, common_pb2, coordinator_pb2

Integers = NDArray[np.int64]
log = logs.logger()

APPROVAL_POLL_SECONDS = 1.0
PREPARE_SECONDS = 0.5
"""Reading the records ends for others at a multiple of it: to the millisecond it is the records' affair."""
RESTART_SECONDS = 5.0
SHORTEST_WAIT_SECONDS = 0.2
"""Between two answers that there is nothing to do: a coordinator that does not let its callers wait is not spun for."""
MOST_LOCAL_FAILURES = 8
"""One after another, of this machine's disk: then the run is left, for nobody waits for ever."""
MOST_PROOF_POLLS = 8
"""How often an ended run is asked for the aggregators' word before that is left to the next start."""
MOST_REASON = 1000
LOCAL_ERRORS = (OutboxError, LedgerRefusedError, TrailError, sqlite3.Error, OSError)
State = coordinator_pb2.NextRoundResponse


class PartyRun:
    """The thread of one run."""

    def __init__(
        self, manifest: Manifest, gate: Callable[[], Gate], wire: Callable[[], Wire], recollection: Recollection,
        lookout: Lookout,
    ) -> None:  # fmt: skip
        self.manifest, self._recollection, self._lookout = manifest, recollection, lookout
        self._make_gate, self._make_wire = gate, wire
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._main, name=f"run {manifest.run}", daemon=True)
        self._wire: Wire | None = None

    def start(self) -> None:
        self.thread.start()

    def end(self) -> None:
        """Ask the thread to stop; a call under way is cut off."""
        self.stop.set()
        if self._wire is not None:
            self._wire.close()

    def _main(self) -> None:
        while not self.stop.is_set():
            try:
                self._once()
                return
            except StoppedError:
                return
            except (FederationError, PrivacyError, OutboxError) as error:
                log.error("the run is interrupted", run=self.manifest.run, error=error)
            except Exception as error:
                # The last resort of a thread: the class says enough, its message might hold a record's value.
                log.error("the run is interrupted", run=self.manifest.run, error=error)
            self.stop.wait(RESTART_SECONDS)

    def _once(self) -> None:
        with contextlib.closing(self._make_gate()) as gate, contextlib.closing(self._make_wire()) as wire:
            self._wire = wire
            life = Life(self.manifest, gate, wire, self.stop, self._recollection, self._lookout)
            try:
                life.live()
            finally:
                life.close()


class Life:
    """What the thread does, with connections of its own."""

    def __init__(
        self, manifest: Manifest, gate: Gate, wire: Wire, stop: threading.Event, recollection: Recollection,
        lookout: Lookout,
    ) -> None:  # fmt: skip
        self.manifest, self.gate, self.wire, self.stop = manifest, gate, wire, stop
        self.recollection, self.lookout = recollection, lookout
        self.coordinator = NodeName(gate.node.federation, Role.coordinator, gate.settings.coordinator)
        self.wait = wait_seconds(manifest)
        self.timeout = self.wait + GRACE_SECONDS
        self.points = Points()
        seen = gate.outbox.seen(manifest.digest) or beginning(manifest)
        self.history = History(manifest, gate.node.name, lambda: wire.identity.pins, self._statements, seen)
        servers = manifest.identities(Role.aggregator)
        words = cache(lambda: gate.outbox.words(manifest.digest))
        self.uploader = Uploader(wire, manifest.digest, servers, self.timeout, words)
        self.speed = Speed(gate.settings.speed(manifest.digest))
        self.newest = Newest(gate.settings.newest(manifest.digest))
        self.admitted = False
        self._version: tuple[tuple[int, int], Stamp, bool] | None = None
        """Of the record of admissions and of the evidence, when they were last read."""
        self._said = ""
        self._module: Apart | None = None
        self._engine: RayEngine | None = None
        self._extractors: ExtractorsApart | None = None

    def close(self) -> None:
        """Whatever this life has started."""
        self.newest.write()
        self.uploader.close()
        if self._module is not None:
            self._module.close()
        if self._engine is not None:
            self._engine.close()
        if self._extractors is not None:
            self._extractors.close()

    def live(self) -> None:
        """Until the run is over, or this party has left it."""
        try:
            ready = self._admission()
            try:
                self.gate.open_module(self.manifest, ready)
            finally:
                self._module, self._extractors = ready.module, ready.extractors
            self.admitted = True
            self._note(JOINED)
            crash.point("party.joined")
            self._join(True, "")
            self._rounds(ready, self._prepared(ready))
        except RefusedRunError as refusal:
            self._leave(refusal)

    def _admission(self) -> Ready:
        """Until the policy admits the run, as it is or as it is changed meanwhile, or a person does."""
        while not self.stop.is_set():
            stamp = self.gate.stamp()
            found: Ready | Waiting = self.gate.decide(self.manifest)
            if isinstance(found, Ready):
                return found
            self._note(WAITING, found.reasons)
            run, digest = self.manifest.run, self.manifest.digest.hex()
            if found is UNSEALED:
                log.warning("the run waits for parley schema check", run=run, manifest=digest)
            else:
                log.warning("the run waits for parley party approve", run=run, manifest=digest)
            bell.ring(bell.APPROVAL, run, digest)  # whatever it waits for: the reasons are the operator's
            while self.gate.stamp() == stamp and not self.stop.wait(APPROVAL_POLL_SECONDS):
                if (ready := self.gate.approved(self.manifest)) is not None:
                    return ready
        raise StoppedError("this process is ending")

    def _prepared(self, ready: Ready) -> Contributor:
        """Only now are records read: this party has said that it takes part, and no record had a say in it.

        Neither has one in when it asks for its first question, but for reading that takes longer than any other.
        """
        began = time.monotonic()
        if self.gate.settings.compute is not None and ready.module is not None:
            ready.module.close()  # it was checked here; workers open it for themselves
            ready.module = None
        try:
            contributor = self.gate.contributor(self.manifest, ready)
        finally:
            if ready.extractors is not None:
                ready.extractors.close()  # they have done all that they are for
            taken = time.monotonic() - began
            if self.stop.wait(PREPARE_SECONDS - taken % PREPARE_SECONDS):
                raise StoppedError("this process is ending")
        self._engine = over_cluster(self.gate.settings.compute, self.manifest, contributor, self.stop)
        return contributor

    def _rounds(self, ready: Ready, contributor: Contributor) -> None:
        outbox, digest = self.gate.outbox, self.manifest.digest
        self.recalled = False
        last = outbox.last(digest)
        acknowledged = last.round_index if last and last.acknowledged else -1
        repeats, failures = Pauses(self.stop), 0
        while True:
            began = time.monotonic()
            response = self._next(acknowledged)
            if response.state == State.STATE_ENDED:
                self._ended(response, last)
                return
            if response.state != State.STATE_ROUND:
                self._look()
                self._require_admitted()
                if self.stop.wait(SHORTEST_WAIT_SECONDS - (time.monotonic() - began)):
                    raise StoppedError("this process is ending")
                continue
            question = response.round
            self._require_admitted()
            try:
                if fresh := last is None or question.index > last.round_index:
                    self._require_recalled()
                    last = self._answer(ready, contributor, response, last)
                    repeats.reset()
                else:
                    self._same(question, last)
                    repeats.pause()
                # The outbox has it on disk, from where a start of this party makes good what a loss of power undoes.
                self.gate.ledger.record(self.manifest.run, last.round_index, last.upload.hex(), lasting=False)
                crash.point("party.recorded")
                if fresh:
                    self._trace(last.round_index, last.upload, len(last.payload_a) + len(last.payload_b))
                failures = 0
            except AskAgainError:
                repeats.pause()
                continue
            except LOCAL_ERRORS as error:
                failures += 1
                log.error("the answer is not stored", run=self.manifest.run, round=question.index, error=error)
                if failures >= MOST_LOCAL_FAILURES:
                    raise refused("policy", "this party's storage fails", "its operator has been told") from None
                last = outbox.last(digest)
                contributor.last_round = last.round_index if last else -1
                repeats.pause()
                continue
            acknowledging = self.uploader.send(last, self.stop, again=not fresh)
            self._keep_receipts(last)
            if acknowledging:
                crash.point("party.acknowledged")
                acknowledged = last.round_index
            self._require_admitted()

    def _require_recalled(self) -> None:
        """Nobody else knows of an answer that this party has forgotten; before it judges what servers state of it."""
        if not self.recalled:
            self.recollection.require(self.manifest, self.gate.outbox, self.gate.ledger, self.wire, self.stop)
            self.recalled = True

    def _require_charged(self, ready: Ready, response: State) -> None:
        """Before an answer: the ledger has the run."""
        self.gate.charge(self.manifest, ready, response.admissions, self.wire.identity.pins)

    def _require_admitted(self) -> None:
        """Its operator may have withdrawn it, in another process; this party could not compute its last answer; or the
        run's last day is over.
        """
        version = self.gate.record.version(), self.gate.evidence.stamp(), self.manifest.expired
        if version != self._version:
            self.gate.require_admitted(self.manifest)
            self._version = version

    def _next(self, acknowledged: int) -> coordinator_pb2.NextRoundResponse:
        request = coordinator_pb2.NextRoundRequest(
            manifest_digest=self.manifest.digest,
            after_round=acknowledged,
            held_points=list(self.points.held),
            wait_seconds=self.wait,
        )
        backoff = Pauses(self.stop)
        while True:
            self.wire.refresh()
            try:
                with self.wire.stopping(self.stop):
                    found: coordinator_pb2.NextRoundResponse = self.wire.stubs[self.coordinator].NextRound(
                        request, timeout=self.timeout
                    )
                self._said = ""
                self.wire.heard(self.coordinator)
                return found
            except grpc.RpcError as error:
                self._say(error)
                backoff.pause()
                if not passing(error):
                    self._join(True, "")

    def _answer(self, ready: Ready, contributor: Contributor, response: State, last: Answer | None) -> Answer:
        """Compute, share and store the answer to a new question; durable when it returns. The rounds before it must be
        in order, by both servers' word; what may not be asked is charged to nobody.
        """
        question = response.round
        check_form(question, self.manifest)
        seen = self.history.follow(question.index, response.statements, last)
        if self.history.pending.keys() - {held.digest for held in self.gate.evidence.all()}:
            self._look(at_once=True)
            self._require_admitted()
        self.uploader.direct |= self.history.left_out
        query = self.points.query(question, self._fetch)
        try:
            contributor.check(query)
        except QueryError as error:
            raise refused("malformed", str(error)) from None
        self._require_charged(ready, response)
        began = time.perf_counter()
        values = contribution(contributor, query, question.length)
        # An engine that holds answers back until a public moment says how long it was at work.
        busy = getattr(contributor.engine, "busy_seconds", None) or time.perf_counter() - began
        self.speed.note(contributor.batch_length(question.index), busy)
        if values is None:
            self._answer_no_more()
            values = np.zeros(question.length, np.int64)
        # A seed and a blind of their own for every answer: a second vector under one seed would be a two-time pad.
        seed, blind = random_bytes(SEED_BYTES), random_bytes(BLIND_BYTES)
        payload = half_a(blind, share(values, seed), self.manifest.share_bits)
        answer = Answer(
            round_index=question.index, query=question.query_digest, upload=b"", payload_a=payload, payload_b=seed
        )
        answer.upload = upload_digest(
            self.manifest.digest, question.index, self.gate.node.uri, question.query_digest, *answer.commitments
        )
        self.gate.outbox.put(self.manifest.digest, answer, last, seen)
        self.history.seen = seen
        self.newest.note(query)
        return answer

    def _answer_no_more(self) -> None:
        """A record may be why an answer could not be computed, and then zeros tell so, once: that the run is left is on
        disk before they go out, and whatever becomes of them no process of this party answers it again."""
        self.gate.record.withdraw(self.manifest.digest)

    def _statements(self, role: int, index: int, most: int) -> aggregator_pb2.StatementsResponse:
        """Of a server, asked over this party's own connection."""
        server = self.manifest.identities(Role.aggregator)[role]
        request = aggregator_pb2.StatementsRequest(manifest_digest=self.manifest.digest, round=index, most=most)
        try:
            with self.wire.stopping(self.stop):
                found: aggregator_pb2.StatementsResponse = self.wire.stubs[server].Statements(
                    request, timeout=self.timeout
                )
        except grpc.RpcError as error:
            self._say(error, server)
            self._look()
            raise AskAgainError("a server does not say what it has opened: ask for the round again") from None
        self.wire.heard(server)
        return found

    def _keep_receipts(self, answer: Answer) -> None:
        """Both at once only: one proves nothing against the two."""
        if len(answer.receipts) == len(self.manifest.identities(Role.aggregator)) and not answer.kept:
            try:
                self.gate.outbox.keep_receipts(self.manifest.digest, answer)
                answer.kept = True
            except OutboxError as error:
                log.error("the receipts are not stored", run=self.manifest.run, error=error)

    def _same(self, question: coordinator_pb2.Round, last: Answer) -> None:
        """A question that was answered before: the newest one again, or a typed refusal."""
        if question.index < last.round_index:
            raise refused(
                "too_late", f"round {question.index} is asked after round {last.round_index} was answered", LEAVE
            )
        check_form(question, self.manifest)
        if question.query_digest != last.query:
            raise refused("contradiction", f"round {question.index} is asked again with another question", LEAVE)

    def _fetch(self, digest: bytes, offset: int) -> bytes:
        request = coordinator_pb2.FetchPointRequest(manifest_digest=self.manifest.digest, digest=digest, offset=offset)
        try:
            with self.wire.stopping(self.stop):
                data: bytes = self.wire.stubs[self.coordinator].FetchPoint(request, timeout=self.timeout).data
            return data
        except grpc.RpcError as error:
            # The run may have gone on or ended meanwhile: only the coordinator's next answer tells.
            self._say(error)
            raise AskAgainError("a point of the question cannot be fetched: ask for the round again") from None

    def _join(self, accepted: bool, reason: str) -> None:
        """Say so until it is heard. A coordinator that refuses to hear it says more when it is asked for a round."""
        request = coordinator_pb2.JoinRequest(
            manifest_digest=self.manifest.digest, accepted=accepted, reason=reason[:MOST_REASON]
        )
        backoff = Pauses(self.stop)
        while True:
            try:
                with self.wire.stopping(self.stop):
                    self.wire.ask(self.coordinator, "Join", request, self.timeout)
                return
            except grpc.RpcError as error:
                self._say(error)
                if not passing(error):
                    return
                backoff.pause()

    def _leave(self, refusal: RefusedRunError) -> None:
        """Fails closed: what was charged stays charged, and the run is not answered again, by no later process."""
        log.error(
            "this party does not take part in the run", run=self.manifest.run, refusal=refusal.name, error=refusal
        )
        last = self.gate.outbox.last(self.manifest.digest)
        taken = self.admitted or self.gate.charged(self.manifest)  # by an earlier process of this party
        if refusal.refusal == common_pb2.REFUSAL_STATEMENT:
            self._trace_refused()
        if taken:
            self.gate.record.withdraw(self.manifest.digest)
            self.gate.outbox.finish(self.manifest.digest, last)
        self._note(LEFT if taken else REFUSED, str(refusal))
        self._join(False, str(refusal))

    def _ended(self, response: coordinator_pb2.NextRoundResponse, last: Answer | None) -> None:
        """Settle the ledger by both aggregators' word; without it the whole charge stays."""
        self.gate.outbox.finish(self.manifest.digest, last)
        crash.point("party.finished")
        log.info("the run has ended", run=self.manifest.run)
        self.lookout.hand_over(response.evidence, self.coordinator)
        self._look(at_once=True)
        self._last_statements(last)
        if not self.gate.charged(self.manifest):
            self._note(SETTLED, response.outcome[:MOST_REASON])
            return
        backoff = Pauses(self.stop)
        for _ in range(MOST_PROOF_POLLS):
            if len(response.ends) >= 2:
                break
            backoff.pause()
            response = self._next(last.round_index if last else -1)
        try:
            settle(self.gate, self.manifest, response.ends, self.wire.identity.pins)
        except FederationError as error:
            log.error(
                "both aggregators must confirm the end, until then the budget stays spent",
                run=self.manifest.run,
                error=error,
            )
            self._note(ENDED, str(error))
        except LedgerRefusedError as error:
            log.warning("the charge stays", run=self.manifest.run, error=error)
            self._note(SETTLED, str(error))
        else:
            crash.point("party.settled")
            self._note(SETTLED, response.outcome[:MOST_REASON])

    def _look(self, at_once: bool = False) -> None:
        """Whether a server has something against the other one; only where noise is joint does that matter here."""
        if self.manifest.noise.parts.joint:
            self.lookout.look(self.wire, self.manifest.identities(Role.aggregator), self.stop, at_once)

    def _last_statements(self, last: Answer | None) -> None:
        """What the servers say of the rounds after the last one that was answered; nothing more is asked of this party,
        so that what is wrong with it can only be said.
        """
        try:
            self.history.seen = self.history.close(last)
            self._trace_audits()
        except StatementError as error:
            log.error("the history is not in order", run=self.manifest.run, error=error)
            self.history.blamed = error.servers
            self._trace_refused()

    def _trace_refused(self) -> None:
        """Of which round which servers' word was refused."""
        self.gate.trail.append(
            "statement.refused", run=self.manifest.run, round=self.history.seen.round + 1,
            members=self.history.blamed or None,
        )  # fmt: skip

    def _trace_audits(self) -> None:
        """What both servers have stated of their audits, up to the newest round that is known."""
        seen = self.history.seen
        if seen.audited is not None:
            epoch, made, of = seen.audited.epoch.hex(), seen.audited.made, self.manifest
            self.gate.trail.append(
                "statement.seen", run=of.run, manifest=of.digest.hex(), round=seen.round, epoch=epoch, audits=made
            )

    def _note(self, state: str, reason: str = "") -> None:
        # Peers' words are shown on terminals.
        shown = "".join(each if each.isprintable() else "?" for each in reason)
        self.wire.mention = self.gate.note(self.manifest, state, shown)

    def _trace(self, index: int, upload: bytes, size: int) -> None:
        """What is about to leave, in the audit trail: public facts of it, and no byte."""
        self._trace_audits()
        heard = sorted(self.wire.mentioned.values())
        self.wire.mentioned.clear()
        self.wire.mention = self.gate.trail.append(
            "round.answered",
            peer_events=heard or None,
            run=self.manifest.run,
            round=index,
            bytes=size,
            upload=upload.hex(),
        )

    def _say(self, error: grpc.RpcError, peer: NodeName | None = None) -> None:
        """Once for each thing that goes wrong."""
        said = self.wire.described(error, peer or self.coordinator)
        if str(said) == self._said:
            return
        self._said = str(said)
        if peer is None:
            log.warning("the coordinator is asked again", run=self.manifest.run, error=said)
        else:
            log.warning("a server is asked again", run=self.manifest.run, peer=peer, error=said)


def contribution(contributor: Contributor, query: Query, length: int) -> Integers | None:
    """int64[length], or None where it cannot be computed at all, which no record is known to bring about."""
    before = contributor.last_round
    try:
        values = np.atleast_1d(contributor.contribution(query))
        if values.shape == (length,):
            return values
        problem = "an answer of another length"
    except EngineStoppedError:
        # Nothing was answered: another process of this party draws another batch.
        raise StoppedError("this process is ending") from None
    except EngineLateError:
        # Nor here: should the run still want it, it is of the same batch. A run that is over is not waited for.
        contributor.last_round = before
        raise AskAgainError("the cluster is away: ask for the round again") from None
    except Exception as error:
        # Presence and failure must not depend on records, and neither must a log line: its class says enough.
        problem = type(error).__name__
    contributor.last_round = query.round_index
    log.error("the round cannot be computed here, this party leaves", round=query.round_index, kind=problem)
    return None
