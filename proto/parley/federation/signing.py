"""A node's word: signed with its key, verified against who it has to be.

    signature = signing.sign(identity, "receipt 1", statement)
    signing.verify(authority, signer, "receipt 1", statement, signature)

The label says what kind of statement it is, so that no signature means anything elsewhere. The signature carries the
signer's certificate, whose chain and identity are checked each time that it is another one than before.
"""

import struct
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.federation.credentials import Identity, check_authority, check_usage, load_certificate, name_in
from parley.federation.errors import CertificateError, NotAuthenticatedError
from parley.federation.names import NodeName

LENGTH = struct.Struct("<H")
ALGORITHM = ec.ECDSA(hashes.SHA256())


def _signed(label: str, statement: bytes) -> bytes:
    return b"parley signature 1\n" + label.encode() + b"\n" + statement


def sign(identity: Identity, label: str, statement: bytes) -> bytes:
    """This node's signature."""
    certificate = identity.certificate
    signature = _private(identity.key).sign(_signed(label, statement), ALGORITHM)
    return LENGTH.pack(len(certificate)) + certificate + signature


def verify(authority: bytes, signer: NodeName, label: str, statement: bytes, signature: bytes) -> None:
    """A NotAuthenticatedError unless `signer` has signed it."""
    try:
        (size,) = LENGTH.unpack_from(signature)
        key = _public(authority, signer, signature[LENGTH.size : LENGTH.size + size])
        key.verify(signature[LENGTH.size + size :], _signed(label, statement), ALGORITHM)
    except (InvalidSignature, CertificateError, struct.error):
        raise NotAuthenticatedError(f"a statement is not signed by {signer}: find out who answers there") from None


@lru_cache(maxsize=16)
def _private(key: bytes) -> ec.EllipticCurvePrivateKey:
    found = serialization.load_pem_private_key(key, None)
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise CertificateError("the node's key is of another kind: request a new certificate")
    return found


@lru_cache(maxsize=64)
def _public(authority: bytes, signer: NodeName, certificate: bytes) -> ec.EllipticCurvePublicKey:
    loaded = load_certificate(certificate)
    name = name_in(loaded)
    check_authority(loaded, load_certificate(authority, "the authority's certificate"))
    check_usage(loaded, name)
    key = loaded.public_key()
    if name != signer or not isinstance(key, ec.EllipticCurvePublicKey):
        raise CertificateError(f"the certificate is {name}'s, not {signer}'s")
    return key
