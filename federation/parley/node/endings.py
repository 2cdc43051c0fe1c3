"""The aggregators' signed words: that they have admitted a run, before which no party charges its ledger for it, and
that a run is over, without which no ledger gives budget back.

Signed with the node's key and verified by the key that whoever relies on it has pinned: no authority can make one.
"""

import struct
from collections.abc import Sequence, Set

from parley.federation.errors import IdentityError, NotAuthenticatedError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node import signatures
from parley.node.credentials import Identity
from parley.node.pins import Pins
from parley.v1 import common_pb2

LABEL, ADMISSION_LABEL = "end 1", "admission 1"
SignedWord = common_pb2.SignedEnd | common_pb2.SignedAdmission


def _end(aggregator: NodeName, manifest_digest: bytes, openings: int) -> bytes:
    return manifest_digest + struct.pack("<q", openings) + aggregator.uri.encode()


def _admission(aggregator: NodeName, manifest_digest: bytes) -> bytes:
    return manifest_digest + aggregator.uri.encode()


def sign_end(identity: Identity, manifest_digest: bytes, openings: int) -> common_pb2.SignedEnd:
    """This node's word; only what is durable may be signed."""
    signature = signatures.sign(identity, LABEL, _end(identity.name, manifest_digest, openings))
    return common_pb2.SignedEnd(
        aggregator=identity.name.uri, manifest_digest=manifest_digest, openings=openings, signature=signature
    )


def end_signed_by(key: bytes, end: common_pb2.SignedEnd) -> bool:
    """Whether that key has signed it; whose the key is, a pin says."""
    try:
        statement = _end(NodeName.parse(end.aggregator), end.manifest_digest, end.openings)
    except (IdentityError, struct.error):
        return False
    return signatures.signed_by(key, LABEL, statement, end.signature)


def sign_admission(identity: Identity, manifest_digest: bytes) -> common_pb2.SignedAdmission:
    """This node's word that the manifest is on its record of admissions."""
    signature = signatures.sign(identity, ADMISSION_LABEL, _admission(identity.name, manifest_digest))
    return common_pb2.SignedAdmission(
        aggregator=identity.name.uri, manifest_digest=manifest_digest, signature=signature
    )


def verify_admissions(words: Sequence[common_pb2.SignedAdmission], manifest: Manifest, pins: Pins) -> None:
    """Refused unless both aggregators of the manifest have signed that they admitted it."""
    said = set()
    _require_few(words, manifest)
    for word in words:
        name = _speaker(word, manifest)
        signatures.verify(pins, name, ADMISSION_LABEL, _admission(name, word.manifest_digest), word.signature)
        said.add(name)
    _require_both(said, manifest, "the admission")


def verify_ends(ends: Sequence[common_pb2.SignedEnd], manifest: Manifest, pins: Pins) -> int:
    """How many sums were opened, by the word of both aggregators of the manifest; refused unless they agree."""
    said: dict[NodeName, int] = {}
    _require_few(ends, manifest)
    for end in ends:
        name = _speaker(end, manifest)
        signatures.verify(pins, name, LABEL, _end(name, end.manifest_digest, end.openings), end.signature)
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
    if word.manifest_digest != manifest.digest:
        raise NotAuthenticatedError(f"what {name} has signed is not its word about this run")
    return name


def _require_few(words: Sequence[SignedWord], manifest: Manifest) -> None:
    if len(words) > 2:
        raise NotAuthenticatedError(f"run {manifest.run} has two aggregators, and {len(words)} words were sent")


def _require_both(said: Set[NodeName], manifest: Manifest, what: str) -> None:
    if said != set(manifest.identities(Role.aggregator)):
        raise NotAuthenticatedError(f"{what} of run {manifest.run} needs the word of both aggregators")
