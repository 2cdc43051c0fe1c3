"""A reviewer's key: who may approve runs, caps and policies signs with it. A file of theirs, under a passphrase.

It is no node's: it lies where its owner keeps it, and policy.toml has the public half (`parley.federation.reviewers`).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.federation.errors import CertificateError
from parley.federation.names import LABEL_RULE, is_label
from parley.node.credentials import read_private, write_private
from parley.node.pins import CURVE, key_of, key_text
from parley.node.signatures import sign_with, signed_by

SHORTEST_PASSPHRASE = 12
HEADER = b"parley reviewer "
PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class ReviewerKey:
    """Opened: it can sign."""

    _private: ec.EllipticCurvePrivateKey = field(repr=False)
    name: str = ""
    """As its owner gave it; a convenience, for the file's first line is not signed: a policy says whose key it is."""

    @property
    def public(self) -> bytes:
        """As a policy names it."""
        return key_of(self._private.public_key())

    def line(self, name: str = "") -> str:
        """For [review.reviewers] of policy.toml."""
        return f'{_checked(name or self.name)} = "{key_text(self.public)}"'

    @classmethod
    def make(cls, path: Path, passphrase: bytes, name: str) -> Self:
        """A new key in a new file, mode 600; one that is there already is never replaced."""
        _checked(name)
        if len(passphrase) < SHORTEST_PASSPHRASE:
            raise CertificateError(f"the passphrase is short: use at least {SHORTEST_PASSPHRASE} characters")
        private = ec.generate_private_key(CURVE)
        encryption = serialization.BestAvailableEncryption(passphrase)
        try:
            text = private.private_bytes(PEM, serialization.PrivateFormat.PKCS8, encryption)
            write_private(path, HEADER + name.encode() + b"\n" + text)
        except FileExistsError:
            raise CertificateError(f"{path.name} is there already: choose another file") from None
        except OSError as error:
            raise CertificateError(f"{path.name} cannot be written ({error.strerror}): choose another place") from None
        return cls(private, name)

    @classmethod
    def load(cls, path: Path, passphrase: bytes) -> Self:
        """A CertificateError for another passphrase, a file that others may read, or one that is no such key."""
        first, _, rest = read_private(path).partition(b"\n")
        data = rest if first.startswith(HEADER) else first + b"\n" + rest
        try:
            private = serialization.load_pem_private_key(data, passphrase)
        except TypeError:
            raise CertificateError(f"{path.name} has no passphrase: make a key with `parley reviewer key`") from None
        except ValueError:
            raise CertificateError(f"{path.name} cannot be opened: the passphrase is wrong, or the file") from None
        if not isinstance(private, ec.EllipticCurvePrivateKey) or private.curve.name != CURVE.name:
            raise CertificateError(f"{path.name} is no reviewer's key: make one with `parley reviewer key`")
        named = first.removeprefix(HEADER).decode(errors="replace") if first.startswith(HEADER) else ""
        return cls(private, named)

    def sign(self, label: str, statement: bytes) -> bytes:
        """Verified by `reviewed`."""
        return sign_with(self._private, f"review {label}", statement)


def _checked(name: str) -> str:
    if not is_label(name):
        raise CertificateError(f"{name[:80]!r} is no name for a policy: use {LABEL_RULE}")
    return name


def reviewed(public: bytes, label: str, statement: bytes, signature: bytes) -> bool:
    """Whether that reviewer's key has signed it, as that kind of statement."""
    return signed_by(public, f"review {label}", statement, signature)
