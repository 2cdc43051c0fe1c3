"""Which runs an aggregation server takes part in: proposals, their verification in the background, and terms.

The bridge between manifests, which `mpc` does not know, and the terms that `mpc.service` runs by.
"""

import asyncio
import functools
import threading
from collections.abc import Callable
from pathlib import Path

from parley.federation import logs
from parley.federation.admission import Admission, AdmissionRecord, admit
from parley.federation.credentials import Identity
from parley.federation.errors import ApprovalError, FederationError, ManifestError, PolicyError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_apart
from parley.federation.names import NodeName, Role
from parley.federation.policy import AggregatorPolicy, Policy, read_policy
from parley.federation.rounds import commitment_a, commitment_b, upload_digest
from parley.v1 import common_pb2

from deploy.node_file import NoiseSettings
from mpc import crash
from mpc.request import Request
from mpc.service.terms import CallRefusedError, CallWaitsError, Proposal, RunTerms

log = logs.logger()
MOST_VERIFIED = 64
"""Manifests in memory whose verification runs or has run, and that are not admitted."""


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
            "noise.security: is semi-honest, which takes noise that both servers sample together, and this server "
            "samples none (its noise.capacity is 0): use malicious in the manifest"
        )
    return reasons


def terms_of(manifest: Manifest, role: int) -> RunTerms:
    """As `mpc.service` needs it."""

    @functools.lru_cache(maxsize=4)
    def request(index: int, length: int, query: bytes) -> Request:
        return Request(
            manifest.run,
            index,
            length,
            manifest.lattice(index),
            manifest.minimum_parties,
            manifest.most_contributions(index),
            manifest.mechanism.clip.contribution_bound(index),
            query,
        )

    uris = {name.name: name.uri for name in manifest.identities(Role.party)}

    def digest(index: int, party: str, query: bytes, to_a: bytes, to_b: bytes) -> bytes:
        return upload_digest(manifest.digest, index, uris[party], query, to_a, to_b)

    return RunTerms(
        manifest.digest,
        manifest.run,
        role,
        {uri: name for name, uri in uris.items()},
        manifest.identities(Role.coordinator)[0].uri,
        manifest.longest_answer,
        manifest.releases,
        manifest.minimum_parties,
        manifest.deadline_seconds,
        request,
        digest,
        commitment_a if role == 0 else commitment_b,
    )


class Admissions:
    """Proposals of one server; lives on the event loop."""

    def __init__(
        self, record: AdmissionRecord, identity: Callable[[], Identity], peer: NodeName, role: int,
        offered: NoiseSettings, policy_path: Path, verified: Path, note: Callable[..., str],
    ) -> None:  # fmt: skip
        self._record, self._role, self._offered, self._policy_path = record, role, offered, policy_path
        self._node, self._peer, self._note, self._kept = identity().name, peer, note, verified
        self._verified: dict[bytes, Meaning | ManifestError] = {}
        self._running: dict[bytes, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._terms: dict[bytes, RunTerms] = {}
        self._withdrawn: set[bytes] = set()
        self._version: tuple[int, int] | None = None
        """Of the record, when it was last read."""
        self._reading = threading.Lock()
        self.parties: set[NodeName] = set()
        self.coordinators: set[NodeName] = set()
        """Of admitted runs, and of withdrawn ones that may have to be ended."""
        self._follow()

    @property
    def admitted(self) -> list[RunTerms]:
        return [terms for digest, terms in self._terms.items() if digest not in self._withdrawn]

    def _follow(self) -> None:
        """What a person approved or withdrew meanwhile, in another process."""
        with self._reading:
            self._read()

    def _read(self) -> None:
        if (version := self._record.version()) == self._version:
            return
        self._version = version
        for admission, withdrawn in self._record.all():
            manifest = admission.manifest
            if withdrawn and manifest.digest not in self._withdrawn:
                self._withdrawn.add(manifest.digest)
                log.warning("the run is withdrawn", run=manifest.run, manifest=manifest.digest.hex())
            if manifest.digest not in self._terms and not self._unfit(manifest):
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

    def terms(self, digest: bytes, ending: bool = False) -> RunTerms | None:
        """Of an admitted run, as the record has it now; of a withdrawn one if it is only to be ended."""
        self._follow()
        return None if digest in self._withdrawn and not ending else self._terms.get(digest)

    async def propose(self, data: bytes, caller: str) -> Proposal:
        """Admitted, refused or pending; the same manifest again asks for the same."""
        try:
            manifest = Manifest.from_canonical(data)
        except ManifestError as error:
            raise CallRefusedError(common_pb2.REFUSAL_MALFORMED, str(error), "correct the manifest") from None
        if caller != manifest.identities(Role.coordinator)[0].uri:
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_A_MEMBER, "a run is proposed by its own coordinator", "see the manifest"
            )
        if reasons := self._unfit(manifest):
            return Proposal(False, tuple(reasons))
        self._require_name(manifest)
        if self.terms(manifest.digest) is not None:
            return Proposal(True)
        return self._judged(manifest)

    def _unfit(self, manifest: Manifest) -> list[str]:
        return reasons_against_server(manifest, self._node, self._peer, self._role, self._offered)

    def _require_name(self, manifest: Manifest) -> None:
        for admission, withdrawn in self._record.all():
            same = admission.manifest.digest == manifest.digest
            if admission.manifest.run == manifest.run and (withdrawn or not same):
                raise CallRefusedError(
                    common_pb2.REFUSAL_CONTRADICTION,
                    f"the name {manifest.run} is taken by {'a withdrawn run' if same else 'another manifest'}",
                    "choose a new one",
                )

    def _judged(self, manifest: Manifest) -> Proposal:
        found = self._verified.get(manifest.digest)
        if found is None:
            if manifest.digest not in self._running:
                if len(self._running) + len(self._verified) >= MOST_VERIFIED:
                    if len(self._running) >= MOST_VERIFIED // 4:
                        raise CallWaitsError("many manifests are being verified", "propose again in a minute")
                    self._verified.pop(next(iter(self._verified)))
                self._running[manifest.digest] = asyncio.create_task(self._verify(manifest))
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
        final = any(reason.final for reason in outcome.reasons)
        return Proposal(False, tuple(str(reason) for reason in outcome.reasons), not final)

    async def _verify(self, manifest: Manifest) -> None:
        try:
            async with self._turn:
                self._verified[manifest.digest] = await asyncio.to_thread(verify_apart, manifest, self._kept)
        except ManifestError as error:
            self._verified[manifest.digest] = error
        except FederationError as error:  # of this machine, not of the manifest: the next proposal tries again
            log.error("a manifest was not verified", run=manifest.run, error=error)
        finally:
            del self._running[manifest.digest]

    def _take(self, manifest: Manifest) -> None:
        self._terms[manifest.digest] = terms_of(manifest, self._role)
        self.parties |= set(manifest.identities(Role.party))
        self.coordinators |= set(manifest.identities(Role.coordinator))


def policy_for_hand(path: Path) -> Policy | None:
    """For an approval by hand, which a missing policy does not prevent."""
    return read_policy(path) if path.exists() else None
