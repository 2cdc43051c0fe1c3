"""The aggregators' signed words: that they have admitted a run, before which no party charges its ledger for it, and
that a run is over, without which no ledger gives budget back.

Signed with the node's key and verified by the key that whoever relies on it has pinned: no authority can make one.

A server that was restored from a backup says so in both, by 16 bytes that were drawn then: what it says of a run that
it may have forgotten is not taken for what it had said before.
"""

import struct
from collections.abc import Mapping, Sequence, Set

from parley.federation.errors import IdentityError, NotAuthenticatedError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node import signatures
from parley.node.credentials import Identity
from parley.node.pins import Pins
from parley.v1 import common_pb2

LABEL, ADMISSION_LABEL = "end 1", "admission 1"
RESTORED_BYTES = 16
SignedWord = common_pb2.SignedEnd | common_pb2.SignedAdmission


def _end(aggregator: NodeName, manifest_digest: bytes, openings: int, restored: bytes) -> bytes:
    return manifest_digest + struct.pack("<q", openings) + aggregator.uri.encode() + _restored(restored)


def _admission(aggregator: NodeName, manifest_digest: bytes, restored: bytes) -> bytes:
    return manifest_digest + aggregator.uri.encode() + _restored(restored)


def _restored(restored: bytes) -> bytes:
    """No URI has a line's end, so that nothing else reads like it."""
    return b"\nrestored " + restored if restored else b""


def sign_end(identity: Identity, manifest_digest: bytes, openings: int, restored: bytes = b"") -> common_pb2.SignedEnd:
    """This node's word; only what is durable may be signed."""
    signature = signatures.sign(identity, LABEL, _end(identity.name, manifest_digest, openings, restored))
    return common_pb2.SignedEnd(
        aggregator=identity.name.uri, manifest_digest=manifest_digest, openings=openings, signature=signature,
        restored=restored,
    )  # fmt: skip


def end_signed_by(key: bytes, end: common_pb2.SignedEnd) -> bool:
    """Whether that key has signed it; whose the key is, a pin says."""
    try:
        statement = _end(NodeName.parse(end.aggregator), end.manifest_digest, end.openings, end.restored)
    except (IdentityError, struct.error):
        return False
    return signatures.signed_by(key, LABEL, statement, end.signature)


def sign_admission(identity: Identity, manifest_digest: bytes, restored: bytes = b"") -> common_pb2.SignedAdmission:
    """This node's word that the manifest is on its record of admissions."""
    signature = signatures.sign(identity, ADMISSION_LABEL, _admission(identity.name, manifest_digest, restored))
    return common_pb2.SignedAdmission(
        aggregator=identity.name.uri, manifest_digest=manifest_digest, signature=signature, restored=restored
    )


def verify_admissions(
    words: Sequence[common_pb2.SignedAdmission], manifest: Manifest, pins: Pins
) -> dict[NodeName, bytes]:
    """Refused unless both aggregators of the manifest have signed that they admitted it; what each says of being
    restored, empty where it never was.
    """
    said: dict[NodeName, bytes] = {}
    _require_few(words, manifest)
    for word in words:
        name = _speaker(word, manifest)
        statement = _admission(name, word.manifest_digest, word.restored)
        signatures.verify(pins, name, ADMISSION_LABEL, statement, word.signature)
        said[name] = word.restored
    _require_both(said.keys(), manifest, "the admission")
    return said


def verify_ends(
    ends: Sequence[common_pb2.SignedEnd], manifest: Manifest, pins: Pins,
    restored: Mapping[NodeName, bytes] | None = None,
) -> int:  # fmt: skip
    """How many sums were opened, by the word of both aggregators of the manifest; refused unless they agree.

    `restored` is what they said with their admissions: one that was restored since then may have forgotten sums.
    """
    said: dict[NodeName, int] = {}
    _require_few(ends, manifest)
    for end in ends:
        name = _speaker(end, manifest)
        statement = _end(name, end.manifest_digest, end.openings, end.restored)
        signatures.verify(pins, name, LABEL, statement, end.signature)
        if restored is not None and end.restored != restored.get(name, b""):
            raise NotAuthenticatedError(
                f"aggregator {name.name} was restored from a backup since it admitted run {manifest.run}, and its "
                "count of sums proves nothing: the charge stays"
            )
        said[name] = end.openings
    _require_both(said.keys(), manifest, "the end")
    if len(set(said.values())) != 1:
        raise NotAuthenticatedError(f"the aggregators disagree on how many sums of run {manifest.run} were opened")
    return next(iter(said.values()))


def _speaker(word: SignedWord, manifest: Manifest) -> NodeName:
    """Who says to have signed it; the pinned key decides."""
    try:
        name = NodeName.parse(word.aggregator)
    except IdentityError:
        raise NotAuthenticatedError(f"a word on run {manifest.run} names no node") from None
    if len(word.restored) not in (0, RESTORED_BYTES):
        raise NotAuthenticatedError(f"a word of {name} says nothing of being restored that could be read")
    if word.manifest_digest != manifest.digest:
        raise NotAuthenticatedError(f"what {name} has signed is not its word about this run")
    return name


def _require_few(words: Sequence[SignedWord], manifest: Manifest) -> None:
    if len(words) > 2:
        raise NotAuthenticatedError(f"run {manifest.run} has two aggregators, and {len(words)} words were sent")


def _require_both(said: Set[NodeName], manifest: Manifest, what: str) -> None:
    if said != set(manifest.identities(Role.aggregator)):
        raise NotAuthenticatedError(f"{what} of run {manifest.run} needs the word of both aggregators")
