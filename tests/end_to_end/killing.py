"""A federation whose processes are killed: at labelled points by their own hand, at random moments from outside.

Every process is started with the next label of its role armed (`parley.mpc.crash`), and started again when it has died,
until the plan is used up; then the run is left to end. Whoever dies is counted by where. Uses `parley.demo.local`, as
the demo.
"""

import contextlib
import hashlib
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc

from parley.coordinator.errors import StateError
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import RunRow, State
from parley.demo.local import LocalFederation, NodeProcess
from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.mpc.crash import VARIABLE
from parley.node.credentials import NodeFolder
from parley.node.transport import open_channel
from parley.v1 import aggregator_pb2, aggregator_pb2_grpc

FIRST: Mapping[Role, tuple[str, ...]] = {
    Role.coordinator: ("submitted", "charged", "gathering", "joined", "running"),
    Role.party: ("charged", "joined"),
    Role.aggregator: (),
}
"""Labels that come once in a run, before its rounds; in the order in which they are reached."""
ROUNDS: Mapping[Role, tuple[str, ...]] = {
    Role.coordinator: ("asked", "opened", "recorded"),
    Role.party: ("outbox.uncommitted", "outbox", "recorded", "acknowledged"),
    Role.aggregator: ("preparing", "prepared", "agreeing", "committing", "committed"),
}
LAST: Mapping[Role, tuple[str, ...]] = {
    Role.coordinator: ("result", "ended", "settled", "finished"),
    Role.party: ("finished", "settled"),
    Role.aggregator: ("ended",),
}
DISCARDED = "aggregator.discarded"
ADMITTED = "aggregator.admitted"
"""Reached only by a server that has not been told by hand."""
MOST_ROUNDS_TO_LABEL = 3
LONGEST_DOWN_SECONDS = 1.0
TICK_SECONDS = 0.03
WATCH_SECONDS = 0.4
ELSEWHERE = {
    "coordinator.ending", "coordinator.stalled", "coordinator.failed", "coordinator.refused", "party.accounted",
    "aggregator.spooled", "aggregator.adding",
}  # fmt: skip
"""Points of runs that do not finish: tests/coordinator; of a party that was restored: tests/party/test_account.py; of
what is in a server's memory and on its disk without a name: tests/aggregator/test_spool.py."""
EVIDENCE = ("evidence.kept", "evidence.recorded", "evidence.charged", "evidence.noted", "evidence.recorded")
"""Where a server was caught, at every node that has the evidence, in order: its record is written twice."""
ANSWERED = "evidence.answered"
AUDITS = ("aggregator.auditing", "aggregator.audited")
"""A replay begins; a server has learned that it is audited. All of these: test_caught_kills.py, test_audit_kills.py."""
HELD = "evidence.waiting"
"""What an audit would prove is on the disk, and the other server does not know of the audit: test_covert.py."""


class RunLostError(AssertionError):
    """A run did not end as it should."""


@dataclass
class Victim:
    """One node, its process, and what it still has to die of."""

    node: NodeProcess
    queue: list[str] = field(default_factory=list)
    """LABEL:COUNT, in order."""
    armed: str = ""
    restart_at: float = 0.0

    def start(self) -> None:
        self.armed = self.queue.pop(0) if self.queue else ""
        self.node.start({VARIABLE: self.armed})

    def back(self) -> None:
        """Killed before it came to its label: next time."""
        if self.armed:
            self.queue.insert(0, self.armed)


@dataclass
class Watched:
    """What left the aggregators, as a second client in the coordinator's name got it."""

    shares: dict[tuple[int, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    """(server, round) -> digests of what was fetched: one, for ever."""
    fetched: int = 0


@dataclass
class Killing:
    """One run under kills."""

    federation: LocalFederation
    manifest: Manifest
    random: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    """Label, or `random ROLE`, to how often somebody died of it. Shared between runs."""
    watched: Watched = field(default_factory=Watched)

    def plan(self, rounds_labels: int, cold: bool) -> None:
        """What everybody dies of: the rarest labels first; one pair of servers in which the other has to discard."""
        first, second = self.random.sample([0, 1], 2)
        self.victims = {name: Victim(node) for name, node in self.federation.nodes.items()}
        for victim in self.victims.values():
            role = victim.node.role
            once = [f"{role.value}.{label}" for label in FIRST[role]]
            victim.queue = [f"{label}:1" for label in once] + self._often(role, rounds_labels)
        servers = [self.victims[node.name] for node in self.federation.aggregators]
        if self.random.random() < 0.7 or not self.kills[DISCARDED]:
            servers[first].queue.insert(0, "aggregator.preparing:1")
            servers[second].queue.insert(0, f"{DISCARDED}:1")
        if cold:
            for server in servers:
                server.queue.insert(0, f"{ADMITTED}:1")

    def _often(self, role: Role, count: int) -> list[str]:
        labels = [f"{role.value}.{label}" for label in ROUNDS[role]]
        self.random.shuffle(labels)
        labels.sort(key=lambda label: self.kills[label])
        chosen = [labels[place % len(labels)] for place in range(count)]
        return [f"{label}:{self.random.randint(1, MOST_ROUNDS_TO_LABEL)}" for label in chosen]

    def run(self, random_kills: int, seconds: float) -> RunRow:
        """Until the run rests and nobody is left to die; RunLostError where that takes longer than `seconds`."""
        for victim in self.victims.values():
            victim.start()
        until = time.monotonic() + seconds
        digest = self._submitted(until)
        coordinator = Coordinator(self.federation.coordinator.folder)
        stop = threading.Event()
        watching = threading.Thread(target=self._watch, args=(coordinator, digest, stop))
        watching.start()
        closing, next_kill = False, time.monotonic() + self.random.expovariate(0.5)
        try:
            while True:
                self._tick()
                row = coordinator.store.get(digest)
                assert row is not None
                if not closing and row.round >= self.manifest.releases - MOST_ROUNDS_TO_LABEL - 1:
                    closing = True
                    self._close_in(row)
                if random_kills and time.monotonic() > next_kill:
                    random_kills -= self._kill_somebody()
                    next_kill = time.monotonic() + self.random.expovariate(0.5)
                if row.state.resting and self._over():
                    return row
                if time.monotonic() > until:
                    raise RunLostError(f"not over in {seconds:g} s: {self._where(row)}")
                time.sleep(TICK_SECONDS)
        finally:
            stop.set()
            watching.join()
            coordinator.store.close()

    def _submitted(self, until: float) -> bytes:
        """The operator's word, again until it is heard."""
        while True:
            self._tick()
            with contextlib.suppress(StateError):
                return Coordinator(self.federation.coordinator.folder).submit(self.manifest)
            if time.monotonic() > until:
                raise RunLostError("the run could not be submitted: " + self.federation.coordinator.tail())
            time.sleep(TICK_SECONDS)

    def _tick(self) -> None:
        """Count who has died, and start them again after a while."""
        for victim in self.victims.values():
            process = victim.node.process
            assert process is not None
            code = process.poll()
            if code is None:
                continue
            if not victim.restart_at:
                if code != -signal.SIGKILL:
                    raise RunLostError(f"{victim.node.name} ended with code {code}: {victim.node.tail()}")
                if not victim.armed:
                    raise RunLostError(f"{victim.node.name} was killed by nobody here: is memory short?")
                self.kills[victim.armed.partition(":")[0]] += 1
                self._down(victim)
            elif time.monotonic() > victim.restart_at:
                victim.restart_at = 0.0
                victim.start()

    def _down(self, victim: Victim) -> None:
        victim.restart_at = time.monotonic() + self.random.random() ** 2 * LONGEST_DOWN_SECONDS

    def _kill_somebody(self) -> int:
        """From outside; a process that died by its own hand meanwhile is left to `_tick`."""
        alive = [victim for victim in self.victims.values() if victim.node.alive]
        if not alive:
            return 0
        victim = self.random.choice(alive)
        self._kill(victim)
        victim.back()
        return 1

    def _kill(self, victim: Victim) -> None:
        self.kills[f"random {victim.node.role.value}"] += 1
        victim.node.kill()
        self._down(victim)

    def _close_in(self, row: RunRow) -> None:
        """The last rounds: whoever still waits for another label is killed, and then dies of those of the end."""
        for victim in self.victims.values():
            role = victim.node.role
            in_time = row.state is State.running
            victim.queue = [f"{role.value}.{label}:1" for label in LAST[role]] if in_time else []
            if victim.node.alive:
                self._kill(victim)

    def _over(self) -> bool:
        """Nobody has anything left to die of."""
        return not any(victim.queue or victim.armed or victim.restart_at for victim in self.victims.values())

    def _where(self, row: RunRow) -> str:
        left = {name: [victim.armed, *victim.queue] for name, victim in self.victims.items() if victim.armed}
        tails = "\n".join(f"{name}: {node.tail()[-600:]}" for name, node in self.federation.nodes.items())
        return f"{row.state} in round {row.round} ({row.outcome}), still to die: {left}\n{tails}"

    # ------------------------------------------------------------ what leaves the servers

    def _watch(self, coordinator: Coordinator, digest: bytes, stop: threading.Event) -> None:
        """Fetches shares of any opened round, over and over."""
        identity = NodeFolder(self.federation.coordinator.folder / "identity").load()
        channels = []
        for peer in self.manifest.identities(Role.aggregator):
            options = [("grpc.max_reconnect_backoff_ms", 1000), ("grpc.min_reconnect_backoff_ms", 500)]
            address = str(self.federation.ports[f"control {peer.name}"])
            channels.append(open_channel(address, identity, peer, options))
        source = random.Random(self.random.random())
        while not stop.wait(WATCH_SECONDS):
            row = coordinator.store.get(digest)
            for server, channel in enumerate(channels):
                stub = aggregator_pb2_grpc.ControlServiceStub(channel)
                index = source.randint(max(0, row.round - 3), row.round) if row else 0
                request = aggregator_pb2.FetchShareRequest(manifest_digest=digest, round=index, offset=0)
                with contextlib.suppress(grpc.RpcError):
                    data = stub.FetchShare(request, timeout=1.0).data
                    self.watched.shares[server, index].add(hashlib.sha256(data).hexdigest())
                    self.watched.fetched += 1
        for channel in channels:
            channel.close()
