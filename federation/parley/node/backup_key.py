"""The operator's key pair for backups: X25519, its secret half under a passphrase in a file of its own.

    parley backup key -o backup.key        # prints the public key, for `parley backup NODE --to`

Made on a machine of the operator's, not on a node: what a node can open, whoever breaks into it can, too. The file has
the secret under scrypt and ChaCha20-Poly1305; its text form of the public key ends with a check, so that a typing error
is found before a backup is written that nobody can open.
"""

import base64
import binascii
import hashlib
import json
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from parley.federation.errors import CertificateError
from parley.node.credentials import read_private, write_private
from parley.node.errors import NodeError

PREFIX = "parley-backup-"
KEY_BYTES, CHECK_BYTES, SALT_BYTES = 32, 4, 16
COST = 1 << 17
"""Of scrypt, with blocks of 8: 128 MiB and some tenths of a second for each guess."""
SHORTEST_PASSPHRASE = 12
FORM = "parley backup key 1"


class BackupError(NodeError):
    """A backup, or the key for it, that cannot be made or used."""


def public_text(key: X25519PublicKey) -> str:
    raw = key.public_bytes_raw()
    return PREFIX + base64.b32encode(raw + _check(raw)).decode().rstrip("=").lower()


def parse_public(text: str) -> X25519PublicKey:
    """As `parley backup key` prints it."""
    body = text.strip().removeprefix(PREFIX).upper()
    try:
        data = base64.b32decode(body + "=" * (-len(body) % 8))
    except binascii.Error:
        data = b""
    raw, check = data[:KEY_BYTES], data[KEY_BYTES:]
    if len(data) != KEY_BYTES + CHECK_BYTES or check != _check(raw) or public_text_of(raw) != text.strip():
        raise BackupError("--to is no public key for backups: give the whole line that `parley backup key` printed")
    return X25519PublicKey.from_public_bytes(raw)


def public_text_of(raw: bytes) -> str:
    return public_text(X25519PublicKey.from_public_bytes(raw))


def _check(raw: bytes) -> bytes:
    return hashlib.sha256(b"parley backup public key 1\n" + raw).digest()[:CHECK_BYTES]


def make(path: Path, passphrase: bytes) -> str:
    """A new key pair, its secret in a new file; the public key as text."""
    if len(passphrase) < SHORTEST_PASSPHRASE:
        raise BackupError(f"the passphrase is short: use at least {SHORTEST_PASSPHRASE} characters")
    secret, salt = X25519PrivateKey.generate(), os.urandom(SALT_BYTES)
    public = public_text(secret.public_key())
    # One key is used for one message, so that a fixed nonce is as good as any.
    sealed = ChaCha20Poly1305(_stretched(passphrase, salt)).encrypt(
        bytes(12), secret.private_bytes_raw(), public.encode()
    )
    body = {"form": FORM, "public": public, "salt": salt.hex(), "sealed": sealed.hex()}
    try:
        write_private(path, json.dumps(body, indent=1).encode() + b"\n")
    except FileExistsError:
        raise BackupError(f"{path} is there already: choose another file, a key is never replaced") from None
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror}") from None
    return public


def load(path: Path, passphrase: bytes) -> X25519PrivateKey:
    """The secret half; a BackupError where file or passphrase are not right."""
    try:
        body = json.loads(read_private(path))
        if body["form"] != FORM:
            raise ValueError
        public, salt, sealed = str(body["public"]), bytes.fromhex(body["salt"]), bytes.fromhex(body["sealed"])
    except CertificateError as error:
        raise BackupError(str(error)) from None
    except (ValueError, KeyError, TypeError):
        raise BackupError(f"{path.name} is no key for backups: give the file that `parley backup key` wrote") from None
    try:
        raw = ChaCha20Poly1305(_stretched(passphrase, salt)).decrypt(bytes(12), sealed, public.encode())
    except InvalidTag:
        raise BackupError(f"{path.name} cannot be opened: the passphrase is wrong, or the file was changed") from None
    return X25519PrivateKey.from_private_bytes(raw)


def _stretched(passphrase: bytes, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=KEY_BYTES, n=COST, r=8, p=1).derive(passphrase)
