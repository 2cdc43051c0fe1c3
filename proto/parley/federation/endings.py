"""The aggregators' signed word that a run is over: what a party's ledger needs before it gives budget back.

Signed by the key of the node's certificate, whose chain and identity are checked again by whoever relies on it.
"""

import struct
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.federation.credentials import Identity, check_authority, check_usage, load_certificate, name_in
from parley.federation.errors import CertificateError, NotAuthenticatedError
from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.v1 import common_pb2

LABEL = b"parley end 1\n"


def _statement(aggregator: str, manifest_digest: bytes, openings: int) -> bytes:
    return LABEL + manifest_digest + struct.pack("<q", openings) + aggregator.encode()


def sign_end(identity: Identity, manifest_digest: bytes, openings: int) -> common_pb2.SignedEnd:
    """This node's word; only what is durable may be signed."""
    key = serialization.load_pem_private_key(identity.key, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the node's key is of another kind: request a new certificate")
    uri = identity.name.uri
    signature = key.sign(_statement(uri, manifest_digest, openings), ec.ECDSA(hashes.SHA256()))
    return common_pb2.SignedEnd(
        aggregator=uri,
        manifest_digest=manifest_digest,
        openings=openings,
        certificate=identity.certificate,
        signature=signature,
    )


def verify_ends(ends: Sequence[common_pb2.SignedEnd], manifest: Manifest, authority: bytes) -> int:
    """How many sums were opened, by the word of both aggregators of the manifest; refused unless they agree.

    A certificate that has expired since still proves who signed; one of another authority proves nothing.
    """
    if len(ends) > 2:
        raise NotAuthenticatedError(f"run {manifest.run} has two aggregators, and {len(ends)} ends were sent")
    issuer = load_certificate(authority, "the authority's certificate")
    said: dict[str, int] = {}
    for end in ends:
        certificate = load_certificate(end.certificate)
        name = name_in(certificate)
        check_authority(certificate, issuer)
        check_usage(certificate, name)
        key = certificate.public_key()
        if (
            name.uri != end.aggregator
            or end.manifest_digest != manifest.digest
            or not isinstance(key, ec.EllipticCurvePublicKey)
        ):
            raise NotAuthenticatedError(f"the end signed by {name} is not its word about this run")
        try:
            key.verify(
                end.signature, _statement(name.uri, end.manifest_digest, end.openings), ec.ECDSA(hashes.SHA256())
            )
        except InvalidSignature:
            raise NotAuthenticatedError(f"the end of run {manifest.run} is not signed by {name}") from None
        said[name.uri] = end.openings
    needed = {name.uri for name in manifest.identities(Role.aggregator)}
    if said.keys() != needed:
        raise NotAuthenticatedError(f"the end of run {manifest.run} needs the word of both aggregators")
    if len(set(said.values())) != 1:
        raise NotAuthenticatedError(f"the aggregators disagree on how many sums of run {manifest.run} were opened")
    return next(iter(said.values()))
