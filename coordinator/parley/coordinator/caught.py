"""Evidence at the coordinator: it asks both servers of a run, verifies what they have, charges its ledger for it, and
passes it on.

A server that refuses to open a sum because of the other one is not believed: only evidence that holds names anybody.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from parley.coordinator.controls import Controls
from parley.federation.errors import EvidenceFileError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node import logs
from parley.node.credentials import NodeFolder
from parley.node.docket import Docket, pair_of
from parley.node.evidence import EvidenceFolder, Held, Newest
from parley.node.node_file import CoordinatorNode
from parley.node.trail import says
from parley.node.transport import InUse
from parley.privacy.errors import LedgerRefusedError
from parley.privacy.ledger import Ledger

log = logs.logger()
MOST_PASSED_ON = 8
"""Pieces in one answer to a party: the newest."""
FAILURES = (EvidenceFileError, LedgerRefusedError, OSError)


class Watch(Protocol):
    """What a driver asks of it."""

    async def look(self, controls: Controls) -> None:
        """Ask both servers; what they hand over is dealt with when this returns, whatever it is."""
        ...

    def against(self, manifest: Manifest) -> Sequence[Held]:
        """Evidence that holds against a server of the run: that this node's operator has not answered, and for good
        where the run is charged for it.
        """
        ...

    def pieces(self, manifest: Manifest) -> list[bytes]:
        """For the run's parties."""
        ...


class NoWatch:
    """Where servers are not asked: benchmarks, whose servers are no parley's."""

    async def look(self, controls: Controls) -> None:
        """There is nothing to see."""

    def against(self, manifest: Manifest) -> Sequence[Held]:
        return ()

    def pieces(self, manifest: Manifest) -> list[bytes]:
        return []


NO_WATCH = NoWatch()


class NodeWatch:
    """Of a coordinator's folder. `runs` gives the manifests of all its runs."""

    def __init__(
        self, node: CoordinatorNode, runs: Callable[[], Iterable[Manifest]], note: Callable[..., object]
    ) -> None:
        self._node, self._runs, self._note = node, runs, note
        self._folder = EvidenceFolder(node.state)
        self._newest = Newest(self._folder)
        in_use = InUse(NodeFolder(node.identity.path))
        self._docket = Docket(
            self._folder,
            lambda: in_use().pins,
            lambda: {pair_of(run) for run in self._audited()},
            lambda server: [run.run for run in self._audited() if server in run.identities(Role.aggregator)],
            self._charge,
            note,
            lambda digest: says(node.trail, "evidence.kept", digest),
        )

    def catch_up(self) -> None:
        """At the start: what a crash has left undone."""
        self._docket.catch_up()

    async def look(self, controls: Controls) -> None:
        for server, pieces in await controls.evidence(self._docket.known()):
            await asyncio.to_thread(self._take, server, pieces)

    def _take(self, server: NodeName, pieces: Sequence[bytes]) -> None:
        """Off the event loop: to verify one takes a tenth of a second of a core."""
        try:
            self._docket.take(pieces, server)
        except FAILURES as error:  # of this machine: gone on with the next time
            self._note("evidence.not_kept", error=error, peer=server)

    def against(self, manifest: Manifest) -> Sequence[Held]:
        servers = manifest.identities(Role.aggregator)
        known = [held for held in self._newest.all() if held.server in servers]
        return [held for held in known if held.pending or manifest.run in held.runs]

    def pieces(self, manifest: Manifest) -> list[bytes]:
        servers = manifest.identities(Role.aggregator)
        try:
            held = [each for each in self._newest.all() if each.server in servers]
            return [self._folder.read(each.digest) for each in held[-MOST_PASSED_ON:]]
        except EvidenceFileError as error:  # parties ask the servers as well
            log.error("evidence is not passed on", run=manifest.run, error=error)
            return []

    def _audited(self) -> list[Manifest]:
        return [run for run in self._runs() if run.noise.parts.audit is not None]

    def _charge(self, held: Held) -> None:
        if held.runs and self._node.ledger.exists():
            with contextlib.closing(Ledger.open_newest(self._node.ledger)) as ledger:
                ledger.charge_for_cheating(held.runs, held.digest)
