"""Which runs an aggregation server takes part in: proposals, and their verification in the background."""

import asyncio
import hashlib
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from parley.aggregator.refusals import CallRefusedError, CallWaitsError
from parley.federation.admission import Admission, AdmissionRecord, admit
from parley.federation.claimed import reasons_even_if_true
from parley.federation.errors import ApprovalError, FederationError, ManifestError, PolicyError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_apart
from parley.federation.names import NodeName, Role
from parley.federation.policy import AggregatorPolicy, Policy, Reason
from parley.federation.policy_file import read_policy
from parley.mpc import crash
from parley.node import bell, logs, trust
from parley.node.credentials import Identity
from parley.node.evidence import Held, waits_for_answer
from parley.node.node_file import NoiseSettings
from parley.v1 import common_pb2

log = logs.logger()
MOST_VERIFIED = 4
"""Manifests of one coordinator whose verification runs or has run, and that are not admitted."""
MOST_PARSED = 4
"""Manifests of one coordinator, up to 1 MiB each, that wait to be parsed."""


class Turns:
    """One piece of work at a time; coordinators take turns, however many pieces one of them brings."""

    def __init__(self) -> None:
        self._every = asyncio.Lock()
        self._own: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def turn(self, of: str) -> AsyncIterator[None]:
        """Locks are first come, first served: behind its own lock a coordinator has one piece in the common queue."""
        async with self._own[fair_key(of)], self._every:
            yield


def fair_key(caller: str) -> str:
    """Whose turn it is."""
    return caller


def reasons_against_server(
    manifest: Manifest, node: NodeName, peer: NodeName, role: int, offered: NoiseSettings
) -> list[str]:
    """What no policy and no person can mend: this server is not the one that the manifest means."""
    order = manifest.identities(Role.aggregator)
    reasons = []
    if {node, peer} != set(order):
        reasons.append(f"aggregators: are {order[0].name} and {order[1].name}, here work {node.name} and {peer.name}")
    elif order[role] != node:
        reasons.append(
            f"aggregators: {order[0].name} comes first and so dials, but {node.name} is configured as server "
            f"{'AB'[role]}: exchange the two in the manifest"
        )
    if (manifest.noise.cover, manifest.noise.precision) != (offered.cover, offered.precision):
        reasons.append(
            f"noise: is {manifest.noise.cover}/{manifest.noise.precision} and this server offers "
            f"{offered.cover}/{offered.precision}: use that in the manifest"
        )
    if manifest.noise.parts.joint and not offered.capacity:
        reasons.append(
            f"noise.security: is {manifest.noise.parts.security}, which takes noise that both servers sample together, "
            "and this server samples none (its noise.capacity is 0): use malicious in the manifest"
        )
    return reasons


@dataclass(frozen=True)
class Proposal:
    """What became of a manifest."""

    admitted: bool
    reasons: tuple[str, ...] = ()
    pending: bool = False


class Admissions:
    """Proposals of one server; lives on the event loop."""

    def __init__(
        self, *, record: AdmissionRecord, identity: Callable[[], Identity], peer: NodeName, role: int,
        offered: NoiseSettings, policy_path: Path, verified: Path, note: Callable[..., str],
        pending: Callable[[], Sequence[Held]] = tuple,
    ) -> None:  # fmt: skip
        """`pending` is evidence against the other server that this one's operator has not answered."""
        self._pending = pending
        self._record, self._role, self._offered, self._policy_path = record, role, offered, policy_path
        self._node, self._peer, self._note, self._kept = identity().name, peer, note, verified
        self._identity = identity
        self._proposed: defaultdict[str, dict[bytes, Manifest]] = defaultdict(dict)
        """By coordinator: the newest manifests that it has brought and that were read, for it brings them again."""
        self._verified: dict[bytes, Meaning | ManifestError] = {}
        self._running: dict[bytes, asyncio.Task[None]] = {}
        self._queues: defaultdict[str, list[bytes]] = defaultdict(list)
        """By coordinator: digests of what it has running or verified, oldest first."""
        self._verifying, self._parsing = Turns(), Turns()
        self._parsed: Counter[str] = Counter()
        self._admitted: dict[bytes, Manifest] = {}
        """Oldest first; withdrawn ones too."""
        self._withdrawn: set[bytes] = set()
        self._names: dict[str, bytes] = {}
        """Of every run on record: a name is taken once."""
        self._version: tuple[int, int] | None = None
        """Of the record, when it was last read."""
        self._reading = threading.Lock()
        self.parties: set[NodeName] = set()
        self.coordinators: set[NodeName] = set()
        """Of admitted runs, and of withdrawn ones that may have to be ended."""
        self._follow()

    @property
    def admitted(self) -> list[bytes]:
        """Their digests."""
        return [digest for digest in self._admitted if digest not in self._withdrawn]

    def runs(self) -> list[Manifest]:
        """Those that are admitted, as the record has it now."""
        self._follow()
        return [manifest for digest, manifest in tuple(self._admitted.items()) if digest not in self._withdrawn]

    def _follow(self) -> None:
        """What a person approved or withdrew meanwhile, in another process."""
        with self._reading:
            if (version := self._record.version()) != self._version:
                self._version = version
                self._read()

    def _read(self) -> None:
        known: dict[bytes, Manifest] = {}
        for manifests in (*self._proposed.values(), self._admitted):
            known |= manifests
        for admission, withdrawn in self._record.all(known):
            manifest = admission.manifest
            self._names[manifest.run] = manifest.digest
            if withdrawn and manifest.digest not in self._withdrawn:
                self._withdrawn.add(manifest.digest)
                log.warning("the run is withdrawn", run=manifest.run, manifest=manifest.digest.hex())
            if manifest.digest not in self._admitted and not self._unfit(manifest):
                self._take(manifest)

    def policy(self) -> AggregatorPolicy | None:
        """As it is on disk now; none that can be read admits nothing."""
        try:
            policy = read_policy(self._policy_path)
        except PolicyError as error:
            log.warning("no manifest is admitted by policy", error=error)
            return None
        return policy if isinstance(policy, AggregatorPolicy) else None

    def proposers(self) -> set[NodeName]:
        """Who may propose: whom the policy names."""
        policy = self.policy()
        names = policy.coordinators if policy else frozenset()
        return self.coordinators | {NodeName(self._node.federation, Role.coordinator, name) for name in names}

    def manifest(self, digest: bytes, ending: bool = False) -> Manifest | None:
        """Of an admitted run, as the record has it now; of a withdrawn one if it is only to be ended.

        Asked at every call, and by workers: a run may be withdrawn meanwhile.
        """
        self._follow()
        return None if digest in self._withdrawn and not ending else self._admitted.get(digest)

    async def propose(self, data: bytes, caller: str) -> Proposal:
        """Admitted, refused or pending; the same manifest again asks for the same."""
        digest = hashlib.sha256(data).digest()
        if (known := self.manifest(digest)) is not None and caller == known.identities(Role.coordinator)[0].uri:
            return Proposal(True)
        manifest = await self._read_from(data, digest, caller)
        if caller != manifest.identities(Role.coordinator)[0].uri:
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_A_MEMBER, "a run is proposed by its own coordinator", "see the manifest"
            )
        if reasons := self._unfit(manifest):
            return Proposal(False, tuple(reasons))
        self._require_name(manifest)
        if self.manifest(manifest.digest) is not None:
            return Proposal(True)
        if pending := self._pending():
            return Proposal(False, (waits_for_answer(pending),), True)
        if held := reasons_even_if_true(manifest, self._node, self.policy()):
            return self._held_against(manifest, held)
        return self._judged(manifest, caller)

    def _held_against(self, manifest: Manifest, reasons: Sequence[Reason]) -> Proposal:
        """By the policy: a person may wave it through, unless a reason is final."""
        waits = not any(reason.final for reason in reasons)
        if waits:
            bell.ring(bell.APPROVAL, manifest.run, manifest.digest.hex())
        return Proposal(False, tuple(map(str, reasons)), waits)

    async def _read_from(self, data: bytes, digest: bytes, caller: str) -> Manifest:
        """Off the event loop, one of a caller at a time: parties go on being served meanwhile."""
        if digest in self._proposed[caller]:
            return self._proposed[caller][digest]
        if self._parsed[caller] >= MOST_PARSED:
            raise CallWaitsError(f"{MOST_PARSED} manifests of this coordinator are being read", "ask again later")
        self._parsed[caller] += 1
        try:
            async with self._parsing.turn(caller):
                manifest = await asyncio.to_thread(Manifest.from_canonical, data)
        except ManifestError as error:
            raise CallRefusedError(common_pb2.REFUSAL_MALFORMED, str(error), "correct the manifest") from None
        finally:
            self._parsed[caller] -= 1
        brought = {**self._proposed[caller], digest: manifest}
        self._proposed[caller] = {each: brought[each] for each in list(brought)[-MOST_VERIFIED:]}
        return manifest

    async def never_admit(self, data: bytes, digest: bytes, caller: str, opened: Callable[[str], bool]) -> None:
        """A manifest that was not admitted never will be, whoever approves it, so that no sum of it is opened.

        Nor was one: a record of admissions that is lost says nothing of a run that is among the openings.
        """
        manifest = await self._read_from(data, hashlib.sha256(data).digest(), caller)
        if manifest.digest != digest or caller != manifest.identities(Role.coordinator)[0].uri:
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_A_MEMBER, "a run is ended by its own coordinator", "see the manifest"
            )
        if opened(manifest.run):
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_ADMITTED,
                f"run {manifest.run} is among this server's openings and not among its admissions",
                "have its operator restore state/admissions.sqlite",
            )
        try:
            settled = self._record.never(digest)
        except ApprovalError as error:
            raise CallWaitsError("the record of admissions cannot be written", str(error)) from None
        if not settled:
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_ADMITTED,
                f"run {manifest.run} was admitted, and this server is configured otherwise now",
                "have its operator put node.toml back",
            )
        self._verified.pop(digest, None)
        self._note("run.never_admitted", run=manifest.run, manifest=digest.hex())

    def taking_part(self, caller: NodeName) -> list[Manifest]:
        """All admitted runs, withdrawn ones too, that have the caller as a party: oldest first."""
        self._follow()
        return [manifest for manifest in tuple(self._admitted.values()) if caller in manifest.members]

    def _unfit(self, manifest: Manifest) -> list[str]:
        return reasons_against_server(manifest, self._node, self._peer, self._role, self._offered)

    def _require_name(self, manifest: Manifest) -> None:
        self._follow()
        taken = self._names.get(manifest.run, manifest.digest)
        same = taken == manifest.digest
        if not same or taken in self._withdrawn:
            raise CallRefusedError(
                common_pb2.REFUSAL_CONTRADICTION,
                f"the name {manifest.run} is taken by {'a withdrawn run' if same else 'another manifest'}",
                "choose a new one",
            )

    def _judged(self, manifest: Manifest, caller: str) -> Proposal:
        found = self._verified.get(manifest.digest)
        if found is None:
            if manifest.digest not in self._running:
                self._make_room(self._queues[caller])
                self._running[manifest.digest] = asyncio.create_task(self._verify(manifest, caller))
            return Proposal(False, ("is being verified: propose again",), True)
        if isinstance(found, ManifestError):
            return Proposal(False, (str(found),))
        try:
            outcome = admit(self._record, found, self._node, self.policy())
        except ApprovalError as error:
            raise CallRefusedError(common_pb2.REFUSAL_CONTRADICTION, str(error), "choose a new name") from None
        if isinstance(outcome, Admission):
            crash.point("aggregator.admitted")
            self._note("run.admitted", run=manifest.run, manifest=manifest.digest.hex(), how=outcome.how)
            del self._verified[manifest.digest]
            self._take(manifest)
            return Proposal(True)
        return self._held_against(manifest, outcome.reasons)

    def _make_room(self, queue: list[bytes]) -> None:
        """For one more manifest of a coordinator: in place of the oldest that is verified, or not at all."""
        queue[:] = [digest for digest in queue if digest in self._running or digest in self._verified]
        if len(queue) >= MOST_VERIFIED:
            oldest = next((digest for digest in queue if digest in self._verified), None)
            if oldest is None:
                raise CallWaitsError(
                    f"{MOST_VERIFIED} manifests of this coordinator are being verified", "propose again in a minute"
                )
            queue.remove(oldest)
            del self._verified[oldest]

    async def _verify(self, manifest: Manifest, caller: str) -> None:
        self._queues[caller].append(manifest.digest)
        try:
            async with self._verifying.turn(caller):
                self._verified[manifest.digest] = await asyncio.to_thread(verify_apart, manifest, self._kept)
        except ManifestError as error:
            self._verified[manifest.digest] = error
        except FederationError as error:  # of this machine, not of the manifest: the next proposal tries again
            log.error("a manifest was not verified", run=manifest.run, error=error)
        finally:
            del self._running[manifest.digest]

    def _take(self, manifest: Manifest) -> None:
        self._admitted[manifest.digest] = manifest
        for coordinator in manifest.identities(Role.coordinator):
            self._proposed[coordinator.uri].pop(manifest.digest, None)
        self.parties |= manifest.members
        self.coordinators |= set(manifest.identities(Role.coordinator))
        trust.name_unpinned(manifest, self._identity)


def policy_for_hand(path: Path) -> Policy | None:
    """For an approval by hand, which a missing policy does not prevent."""
    return read_policy(path) if path.exists() else None
