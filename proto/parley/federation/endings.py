"""The aggregators' signed word that a run is over: what a party's ledger needs before it gives budget back.

Signed with the node's key and verified by the key that whoever relies on it has pinned: no authority can make one.
"""

import struct
from collections.abc import Sequence

from parley.federation import signing
from parley.federation.credentials import Identity
from parley.federation.errors import IdentityError, NotAuthenticatedError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.pins import Pins
from parley.v1 import common_pb2

LABEL = "end 1"


def _statement(aggregator: NodeName, manifest_digest: bytes, openings: int) -> bytes:
    return manifest_digest + struct.pack("<q", openings) + aggregator.uri.encode()


def sign_end(identity: Identity, manifest_digest: bytes, openings: int) -> common_pb2.SignedEnd:
    """This node's word; only what is durable may be signed."""
    signature = signing.sign(identity, LABEL, _statement(identity.name, manifest_digest, openings))
    return common_pb2.SignedEnd(
        aggregator=identity.name.uri, manifest_digest=manifest_digest, openings=openings, signature=signature
    )


def verify_ends(ends: Sequence[common_pb2.SignedEnd], manifest: Manifest, pins: Pins) -> int:
    """How many sums were opened, by the word of both aggregators of the manifest; refused unless they agree."""
    said: dict[NodeName, int] = {}
    for end in ends:
        try:
            name = NodeName.parse(end.aggregator)
        except IdentityError:
            raise NotAuthenticatedError(f"an end of run {manifest.run} names no node") from None
        if end.manifest_digest != manifest.digest:
            raise NotAuthenticatedError(f"the end signed by {name} is not its word about this run")
        signing.verify(pins, name, LABEL, _statement(name, end.manifest_digest, end.openings), end.signature)
        said[name] = end.openings
    if said.keys() != set(manifest.identities(Role.aggregator)):
        raise NotAuthenticatedError(f"the end of run {manifest.run} needs the word of both aggregators")
    if len(set(said.values())) != 1:
        raise NotAuthenticatedError(f"the aggregators disagree on how many sums of run {manifest.run} were opened")
    return next(iter(said.values()))
