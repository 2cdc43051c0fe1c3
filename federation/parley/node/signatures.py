"""A node's word: signed with its key, and verified by the key that is pinned for it. No certificate takes part.

    signature = signatures.sign(identity, "end 1", statement)
    signatures.verify(pins, signer, "end 1", statement, signature)

The label says what kind of statement it is, so that no signature means anything elsewhere; TLS and certificates sign
with other prefixes.
"""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from parley.federation.errors import NotAuthenticatedError
from parley.federation.names import NodeName
from parley.node.credentials import Identity
from parley.node.pins import Pins, public_key

ALGORITHM = ec.ECDSA(hashes.SHA256())


def _signed(label: str, statement: bytes) -> bytes:
    if not label or "\n" in label:
        raise ValueError("a label is one line")
    return b"parley signature 1\n" + label.encode() + b"\n" + statement


def sign(identity: Identity, label: str, statement: bytes) -> bytes:
    """This node's signature."""
    return sign_with(identity.private, label, statement)


def sign_with(private: ec.EllipticCurvePrivateKey, label: str, statement: bytes) -> bytes:
    """Of a key that is no node's, such as a reviewer's."""
    return private.sign(_signed(label, statement), ALGORITHM)


def verify(pins: Pins, signer: NodeName, label: str, statement: bytes, signature: bytes) -> None:
    """A NotPinnedError or NotAuthenticatedError unless a key that is `signer`'s now has signed it."""
    if not any(signed_by(key, label, statement, signature) for key in pins.require(signer)):
        raise NotAuthenticatedError(f"a statement is not signed by the key that is pinned for {signer}: compare pins")


def signed_by(key: bytes, label: str, statement: bytes, signature: bytes) -> bool:
    """Whether that key has signed it; for statements about keys themselves."""
    try:
        public_key(key).verify(signature, _signed(label, statement), ALGORITHM)
    except InvalidSignature:
        return False
    return True
