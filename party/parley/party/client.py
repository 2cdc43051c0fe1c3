"""A party's process: asks the coordinator for runs, one thread for each."""

import contextlib
import hashlib
import os
import threading
import time

import grpc

from parley.federation.errors import ManifestError, PolicyError, WrongIdentityError
from parley.federation.manifest import Manifest, of_an_earlier_version
from parley.federation.names import NodeName, Role
from parley.federation.policy import PartyPolicy
from parley.federation.rounds import MOST_WAIT_SECONDS
from parley.node import logs
from parley.node.alone import only_one
from parley.node.backoff import Backoff
from parley.node.revoked_lists import RevokedLists
from parley.node.upgrade import forget
from parley.node.vigil import QUIET_SECONDS, Vigil, quiet_seconds
from parley.party.account import LOST, until_taken
from parley.party.admission import Gate
from parley.party.books import require_populations
from parley.party.data import Shelf
from parley.party.errors import OutboxError, StoppedError
from parley.party.lookout import Lookout
from parley.party.memory import Recollection
from parley.party.outbox import ENDED, LEFT, OVER, REFUSED, Outbox
from parley.party.review import cap_of, policy_of
from parley.party.run import PartyRun
from parley.party.settings import Settings
from parley.party.settlement import settle_open, still_open
from parley.party.wire import GRACE_SECONDS, Pauses, Wire
from parley.v1 import coordinator_pb2

log = logs.logger()

MOST_RUNS = 32
"""At once; more are taken up as these end."""
MOST_TAKEN = 8
"""Manifests from one answer: the coordinator offers the others again."""
MOST_KNOWN = 1024
"""Digests that are remembered, so that a flood of manifests fills no memory; the coordinator takes 4096."""
FIRST_SETTLE_SECONDS, SETTLE_SECONDS = 5.0, 600.0
"""Between two looks at runs that have ended without a proof of it."""
SHORTEST_POLL_SECONDS = 0.2
"""Between two answers."""


class PartyClient:
    """All runs of one party."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.node = settings.identity.load().name
        if self.node.role is not Role.party:
            raise WrongIdentityError(f"{self.node} is not a party: start the process of its own kind")
        settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = only_one(settings.state, Role.party)
        forget(settings.state)
        self._shelf = Shelf(settings)
        self._coordinator = NodeName(self.node.federation, Role.coordinator, settings.coordinator)
        self._lists = RevokedLists(settings.identity)
        self._stop = threading.Event()
        self._recollection = Recollection()
        self._settler = threading.Thread(target=self._settle, name="settling", daemon=True)
        self._runs: dict[bytes, PartyRun] = {}
        self._known: dict[bytes, None] = {}
        self._lost = set[bytes]()
        """Oldest first."""
        self._targets = {self._coordinator: settings.coordinator_address} | {
            NodeName(self.node.federation, Role.aggregator, name): at for name, at in settings.aggregators.items()
        }
        self._vigil = Vigil(settings.identity, self.node, settings.state, self._waited_for, quiet_seconds=self._quiet)
        self._settling_wire: Wire | None = None
        self._wire = self._new_wire()
        self._lookout = Lookout(settings, self.node, lambda: self._wire.identity.pins)
        try:
            self._accounted = self._open_ledger()
            self._lookout.catch_up()
            if not all(each.sealed() for each in self._shelf.seals.values()):
                log.warning("the records are not sealed, run parley schema check")
            if self._accounted:
                self._resume()
        except BaseException:
            os.close(self._lock)
            raise

    def serve(self) -> None:
        """Until `stop`."""
        backoff, said = Pauses(self._stop), ""
        self._vigil.start()
        try:
            self._take_account()
            self._settler.start()
            while not self._stop.is_set():
                os.utime(self._lock)  # what `parley health` looks at: this loop turns
                began = time.monotonic()
                try:
                    manifests = self._ask()
                except grpc.RpcError as error:
                    found = self._wire.described(error, self._coordinator)
                    if str(found) != said:
                        said = str(found)
                        log.warning("the coordinator does not say which runs there are", error=found)
                    backoff.pause()
                    continue
                said = ""
                backoff.reset()
                for data in manifests[:MOST_TAKEN]:
                    self._take(data)
                self._stop.wait(SHORTEST_POLL_SECONDS - (time.monotonic() - began))
        except StoppedError:
            pass
        finally:
            self._end()

    def _take_account(self) -> None:
        """Of a party that was put back to an old state: before it takes part in anything."""
        if self._accounted:
            return
        with contextlib.closing(self._new_gate()) as gate:
            taken = until_taken(gate, self._wire, self._stop, lambda: os.utime(self._lock))
        log.warning("this party was restored, and its servers have accounted for it", runs=len(taken.runs))
        self._lookout.catch_up()
        self._resume()

    def stop(self) -> None:
        """From any thread or signal handler; what is durable takes it up again at the next start."""
        self._stop.set()
        self._wire.close()

    def _ask(self) -> list[bytes]:
        self._wire.refresh()
        full = sum(run.thread.is_alive() for run in self._runs.values()) >= MOST_RUNS
        if full and self._stop.wait(1.0):
            raise StoppedError("this process is ending")
        request = coordinator_pb2.ListRunsRequest(
            known_digests=list(self._known), wait_seconds=MOST_WAIT_SECONDS, revoked_number=self._lists.number
        )
        with self._wire.stopping(self._stop):
            stub = self._wire.stubs[self._coordinator]
            found = stub.ListRuns(request, timeout=MOST_WAIT_SECONDS + GRACE_SECONDS)
        self._lists.take(found.revoked, self._coordinator)
        return list(found.manifests)

    def _take(self, data: bytes) -> None:
        """Start a run that is not known yet."""
        digest = hashlib.sha256(data).digest()
        live = sum(run.thread.is_alive() for run in self._runs.values())
        if digest in self._known or live >= MOST_RUNS:
            return
        self._remember(digest)
        if digest in self._lost:
            self._decline(digest, "this party has left the run: propose a new one")
            return
        try:
            self._require_small(data)
            self._start(Manifest.from_canonical(data))
        except ManifestError as error:
            log.error("a run was proposed that nobody can admit", error=error)
            self._decline(digest, str(error))

    def _require_small(self, data: bytes) -> None:
        """Before it is parsed: that takes time and memory in proportion."""
        try:
            policy = policy_of(self.settings)
        except PolicyError:
            policy = None
        if isinstance(policy, PartyPolicy) and len(data) > policy.largest_manifest_bytes:
            raise ManifestError(
                "the manifest",
                f"has {len(data):,} bytes and this party takes {policy.largest_manifest_bytes:,}: shorten it, or have "
                "largest_manifest_bytes raised",
            )

    def _remember(self, digest: bytes) -> None:
        """And forget the oldest of too many, and runs whose thread has ended."""
        self._known[digest] = None
        self._runs = {key: run for key, run in self._runs.items() if run.thread.is_alive()}
        for oldest in list(self._known)[: len(self._known) - MOST_KNOWN]:
            if oldest not in self._runs:
                del self._known[oldest]

    def _decline(self, digest: bytes, reason: str) -> None:
        request = coordinator_pb2.JoinRequest(manifest_digest=digest, accepted=False, reason=reason[:1000])
        try:
            with self._wire.stopping(self._stop):
                self._wire.stubs[self._coordinator].Join(request, timeout=MOST_WAIT_SECONDS)
        except grpc.RpcError as error:
            log.warning("a refusal was not heard", error=self._wire.described(error, self._coordinator))

    def _start(self, manifest: Manifest) -> None:
        self._lookout.begun(manifest)
        run = PartyRun(manifest, self._new_gate, self._new_wire, self._recollection, self._lookout)
        self._runs[manifest.digest] = run
        run.start()

    def _resume(self) -> None:
        """What an earlier process was at, without waiting for the coordinator; refused runs are looked at again."""
        outbox = Outbox(self.settings.outbox)
        over = (*OVER, ENDED, REFUSED)
        self._shelf.keep_features(held.digest for held in outbox.runs() if held.state not in over)
        for held in outbox.runs():
            if held.state == LEFT and held.reason == LOST:
                self._lost.add(held.digest)  # its coordinator may be gathering it, and was not told yet
            elif held.state != REFUSED:
                self._known[held.digest] = None
            if held.state in over:
                continue
            if of_an_earlier_version(held.manifest):
                log.error("a run of an earlier version is not gone on with, and stays charged", run=held.run)
                continue
            self._start(Manifest.from_canonical(held.manifest))
        outbox.close()

    def _settle(self) -> None:
        """Whatever was charged and ended without a proof, until there is one; but first what may be charged for good,
        for a coordinator can let this party wait for each proof, and for all of them in turn.
        """
        backoff, manifests = Backoff(FIRST_SETTLE_SECONDS, SETTLE_SECONDS), dict[bytes, Manifest]()
        while not self._stop.is_set():
            for step in (self._look_around, lambda: self._settle_ended(manifests)):
                try:
                    step()
                except StoppedError:
                    return
                except Exception as error:  # of this machine: tried again
                    log.error("what is open is not settled", error=error)
            self._stop.wait(backoff.next_seconds())

    def _settle_ended(self, manifests: dict[bytes, Manifest]) -> None:
        """`manifests` has those that are parsed already, of runs that are still to be settled."""
        with contextlib.closing(self._new_gate()) as gate:
            runs = [held for held in still_open(gate) if held.digest not in self._alive_digests()]
            manifests |= {run.manifest.digest: run.manifest for run in tuple(self._runs.values())}
            for digest in manifests.keys() - {held.digest for held in runs}:
                del manifests[digest]
            if runs:
                with contextlib.closing(self._new_wire()) as wire:
                    self._settling_wire = wire
                    settle_open(gate, wire, runs, self._stop, manifests)

    def _look_around(self) -> None:
        """Whether a server that has served this party under audit was caught since, in whosoever's run."""
        servers = {name for run in self._lookout.concerned() for name in run.identities(Role.aggregator)}
        if known := servers & self._targets.keys():
            with contextlib.closing(self._new_wire()) as wire:
                self._settling_wire = wire
                self._lookout.look(wire, known, self._stop)

    def _alive_digests(self) -> set[bytes]:
        return {run.manifest.digest for run in self._alive()}

    def _open_ledger(self) -> bool:
        """Make good what a crash left out of it; refuse to start with another budget: caps are final.

        False where it was put back to an old state, and an account of what was charged since is due.
        """
        with_ledger = self._new_gate()
        try:
            with_ledger.catch_up()
            require_populations(with_ledger.ledger, self.settings)
            cap = cap_of(self.settings)
            for name in self.settings.populations:
                held = with_ledger.ledger.populations.get(name)
                if held is not None and held.cap != cap:
                    raise OutboxError(
                        f"[budget] differs from the ledger's epsilon {held.cap.epsilon:g} and delta {held.cap.delta:g} "
                        f"for {held.name}: caps are final, write these"
                    )
            return not with_ledger.ledger.waits_for_account
        finally:
            with_ledger.close()

    def _new_gate(self) -> Gate:
        return Gate(self.settings, self.node, self._shelf)

    def _new_wire(self) -> Wire:
        return Wire(self.settings.identity, self._targets, self._vigil.heard)

    def _alive(self) -> list[PartyRun]:
        return [run for run in tuple(self._runs.values()) if run.thread.is_alive()]

    def _waited_for(self) -> dict[NodeName, str]:
        """Whose answers a run needs; without a run nobody is looked after."""
        return self._targets if self._alive() else {}

    def _quiet(self) -> float:
        return max((quiet_seconds(len(run.manifest.parties)) for run in self._alive()), default=QUIET_SECONDS)

    def _end(self) -> None:
        self._stop.set()
        self._vigil.stop()
        for run in self._runs.values():
            run.end()
        if self._settling_wire is not None:
            self._settling_wire.close()
        for run in self._runs.values():
            run.thread.join(10.0)
        if self._settler.ident is not None:
            self._settler.join(10.0)
        self._wire.close()
        self._lookout.close()
        os.close(self._lock)
