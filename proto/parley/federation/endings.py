"""The aggregators' signed words: that they have admitted a run, before which no party charges its ledger for it, and
that a run is over, without which no ledger gives budget back.

Signed by the key of the node's certificate, whose chain and identity are checked again by whoever relies on it.
"""

import struct
from collections.abc import Sequence, Set

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.federation.credentials import Identity, check_authority, check_usage, load_certificate, name_in
from parley.federation.errors import CertificateError, NotAuthenticatedError
from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.v1 import common_pb2

LABEL = b"parley end 1\n"
ADMISSION_LABEL = b"parley admission 1\n"
MOST = 4
"""Words that are looked at: whoever sends more has nothing to say."""
SignedWord = common_pb2.SignedEnd | common_pb2.SignedAdmission


def _statement(aggregator: str, manifest_digest: bytes, openings: int) -> bytes:
    return LABEL + manifest_digest + struct.pack("<q", openings) + aggregator.encode()


def _admission(aggregator: str, manifest_digest: bytes) -> bytes:
    return ADMISSION_LABEL + manifest_digest + aggregator.encode()


def sign_end(identity: Identity, manifest_digest: bytes, openings: int) -> common_pb2.SignedEnd:
    """This node's word; only what is durable may be signed."""
    uri = identity.name.uri
    signature = _signed(identity, _statement(uri, manifest_digest, openings))
    return common_pb2.SignedEnd(
        aggregator=uri,
        manifest_digest=manifest_digest,
        openings=openings,
        certificate=identity.certificate,
        signature=signature,
    )


def sign_admission(identity: Identity, manifest_digest: bytes) -> common_pb2.SignedAdmission:
    """This node's word that the manifest is on its record of admissions."""
    uri = identity.name.uri
    return common_pb2.SignedAdmission(
        aggregator=uri,
        manifest_digest=manifest_digest,
        certificate=identity.certificate,
        signature=_signed(identity, _admission(uri, manifest_digest)),
    )


def _signed(identity: Identity, statement: bytes) -> bytes:
    key = serialization.load_pem_private_key(identity.key, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the node's key is of another kind: request a new certificate")
    return key.sign(statement, ec.ECDSA(hashes.SHA256()))


def verify_admissions(words: Sequence[common_pb2.SignedAdmission], manifest: Manifest, authority: bytes) -> None:
    """Refused unless both aggregators of the manifest have signed that they admitted it."""
    issuer = load_certificate(authority, "the authority's certificate")
    said = {
        _verified(word, _admission(word.aggregator, word.manifest_digest), manifest, issuer) for word in words[:MOST]
    }
    _require_both(said, manifest, "the admission")


def verify_ends(ends: Sequence[common_pb2.SignedEnd], manifest: Manifest, authority: bytes) -> int:
    """How many sums were opened, by the word of both aggregators of the manifest; refused unless they agree.

    A certificate that has expired since still proves who signed; one of another authority proves nothing.
    """
    issuer = load_certificate(authority, "the authority's certificate")
    said: dict[str, int] = {}
    for end in ends[:MOST]:
        statement = _statement(end.aggregator, end.manifest_digest, end.openings)
        said[_verified(end, statement, manifest, issuer)] = end.openings
    _require_both(said.keys(), manifest, "the end")
    if len(set(said.values())) != 1:
        raise NotAuthenticatedError(f"the aggregators disagree on how many sums of run {manifest.run} were opened")
    return next(iter(said.values()))


def _verified(word: SignedWord, statement: bytes, manifest: Manifest, issuer: x509.Certificate) -> str:
    """The URI of whoever has signed it, as the authority knows them."""
    certificate = load_certificate(word.certificate)
    name = name_in(certificate)
    check_authority(certificate, issuer)
    check_usage(certificate, name)
    key = certificate.public_key()
    if (
        name.uri != word.aggregator
        or word.manifest_digest != manifest.digest
        or not isinstance(key, ec.EllipticCurvePublicKey)
    ):
        raise NotAuthenticatedError(f"what {name} has signed is not its word about this run")
    try:
        key.verify(word.signature, statement, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise NotAuthenticatedError(f"the word on run {manifest.run} is not signed by {name}") from None
    return name.uri


def _require_both(said: Set[str], manifest: Manifest, what: str) -> None:
    if said != {name.uri for name in manifest.identities(Role.aggregator)}:
        raise NotAuthenticatedError(f"{what} of run {manifest.run} needs the word of both aggregators")
