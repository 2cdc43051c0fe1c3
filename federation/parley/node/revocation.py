"""The authority's list of revoked certificates: which keys no node trusts any more, whatever it has pinned.

An X.509 CRL (RFC 5280), signed by the authority. Each entry has the certificate's serial and, in an extension of ours,
the key that it enrolled: nodes know each other by their keys, so that a renewed certificate of the same key is no way
around. The list's number only grows, and no list forgets what an older one said. It can shut nodes out and let nobody
in: whoever has the authority's key can stop runs with it, and learns nothing.

    NODE/identity/revoked.crl      the newest that this node has seen, PEM; at the authority, the newest it has made
"""

import datetime as dt
import fcntl
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.federation.errors import CertificateError
from parley.node.pins import UNREADABLE, key_of
from parley.privacy.durable import PRIVATE, replace_durably

REVOKED_FILE, LOCK_FILE = "revoked.crl", "revoked.lock"
MOST_BYTES, MOST_ENTRIES = 1 << 16, 256
KEY = x509.ObjectIdentifier("2.25.126424581632481494920083842015615220241")
"""Of the entry's extension: the enrolled key, 33 bytes as they are pinned, in a DER octet string."""
KEY_HEAD = b"\x04\x21"
LONG_DAYS = 30
"""A list that is older is worth a question: the authority makes a fresh one at least as often."""
NEVER = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
REASONS = {
    "key-compromise": x509.ReasonFlags.key_compromise,
    "left": x509.ReasonFlags.cessation_of_operation,
    "excluded": x509.ReasonFlags.privilege_withdrawn,
    "unspecified": x509.ReasonFlags.unspecified,
}


class RevocationError(CertificateError):
    """A list of revoked certificates that is not taken."""


@dataclass(frozen=True)
class Entry:
    """One revoked certificate."""

    serial: int
    key: bytes
    at: dt.datetime
    reason: str


@dataclass(frozen=True)
class Revoked:
    """A list whose signature was looked at."""

    number: int
    issued: dt.datetime
    entries: tuple[Entry, ...]
    data: bytes
    """As it travels, PEM."""

    @property
    def keys(self) -> frozenset[bytes]:
        return frozenset(entry.key for entry in self.entries)

    @property
    def age_days(self) -> float:
        return (dt.datetime.now(dt.UTC) - self.issued) / dt.timedelta(days=1)


MOST_NUMBER = 1 << 63


def parsed(data: bytes, authority: x509.Certificate) -> Revoked:
    """A RevocationError unless that authority has signed it, and it says no more than this release knows."""
    if len(data) > MOST_BYTES:
        raise RevocationError(f"the list of revoked certificates is longer than {MOST_BYTES:,} bytes: it is none")
    try:
        found = x509.load_pem_x509_crl(data)
        public = authority.public_key()
        assert isinstance(public, ec.EllipticCurvePublicKey)
        signed = found.issuer == authority.subject and found.is_signature_valid(public)
        if not signed or not isinstance(found.signature_hash_algorithm, hashes.SHA256):
            raise RevocationError(
                "the list of revoked certificates is not signed by this federation's authority: have it sent again"
            )
        numbers = [each.value for each in found.extensions if isinstance(each.value, x509.CRLNumber)]
        if len(numbers) != 1 or len(found.extensions) != 1 or len(found) > MOST_ENTRIES:
            raise ValueError("extensions, or too many entries")
        number = numbers[0].crl_number
        if number >= MOST_NUMBER:
            raise ValueError("after such a number no list could follow")
        entries = tuple(_entry(each) for each in found)
        issued = found.last_update_utc
    except (*UNREADABLE, TypeError, AssertionError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        raise RevocationError(
            "this is no list of revoked certificates that this release reads: give the file of `parley ca revoke`, "
            "or upgrade this node"
        ) from None
    # Written anew, so that nothing is passed on that the authority did not sign: PEM takes any text around it.
    return Revoked(number, issued, entries, found.public_bytes(serialization.Encoding.PEM))


def _entry(found: x509.RevokedCertificate) -> Entry:
    key, reason = b"", "unspecified"
    for each in found.extensions:
        value = each.value
        if isinstance(value, x509.CRLReason):
            reason = next((name for name, flag in REASONS.items() if flag is value.reason), "unspecified")
        elif isinstance(value, x509.UnrecognizedExtension) and value.oid == KEY:
            key = value.value.removeprefix(KEY_HEAD)
        else:
            raise ValueError("an extension that this release does not know")
    if len(key) != KEY_HEAD[1]:
        raise ValueError("no key")
    return Entry(found.serial_number, key, found.revocation_date_utc, reason)


def signed(
    entries: Iterable[Entry], number: int, authority: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> Revoked:
    """A new list."""
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject).last_update(now).next_update(NEVER)
    for entry in entries:
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder()
            .serial_number(entry.serial)
            .revocation_date(entry.at)
            .add_extension(x509.CRLReason(REASONS[entry.reason]), critical=False)
            .add_extension(x509.UnrecognizedExtension(KEY, KEY_HEAD + entry.key), critical=False)
            .build()
        )
    made = builder.add_extension(x509.CRLNumber(number), critical=False).sign(key, hashes.SHA256())
    return parsed(made.public_bytes(serialization.Encoding.PEM), authority)


def held(folder: Path, authority: x509.Certificate) -> Revoked | None:
    """The list in that folder; None where there is none, and a RevocationError where it is not the authority's."""
    path = folder / REVOKED_FILE
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RevocationError(f"{path.name} cannot be read: {error.strerror}") from None
    try:
        return parsed(data, authority)
    except RevocationError as error:
        raise RevocationError(
            f"{REVOKED_FILE}: {error}; until then nobody is trusted. The newest list of the installed authority mends "
            "it: `parley node revoked FILE`"
        ) from None


def require_unrevoked(folder: Path, authority: x509.Certificate, request: x509.CertificateSigningRequest) -> None:
    """Before it is signed: no certificate for a key that this authority has revoked."""
    revoked = held(folder, authority)
    if revoked is not None and key_of(request.public_key()) in revoked.keys:
        raise CertificateError(
            "the key of this request is revoked: have its operator make another, `parley node rotate`"
        )


def keep(folder: Path, data: bytes, authority: x509.Certificate, replacing: bool = False) -> Revoked:
    """The newest of what is there and what has come; an older list, and one that forgets, is refused.

    `replacing` is for a person: a list that is there and cannot be read is given up for this one.
    """
    fresh = parsed(data, authority)
    handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        _give(handle, folder)
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            known = held(folder, authority)
        except RevocationError:
            if not replacing:
                raise
            known = None
        if known is not None:
            if fresh.data == known.data:
                return known
            _require_follows(fresh, known)
        replace_durably(folder / REVOKED_FILE, fresh.data, lambda written: _give(written, folder))
        return fresh
    finally:
        os.close(handle)


def _require_follows(fresh: Revoked, known: Revoked) -> None:
    if fresh.number <= known.number:
        what = "older than" if fresh.number < known.number else "another than"
        raise RevocationError(
            f"the list is {what} the one that this node has, number {known.number}: ask the authority for the newest"
        )
    if not known.keys <= fresh.keys:
        raise RevocationError(
            f"list {fresh.number} forgets what list {known.number} revokes: the authority was put back to an old "
            f"state. Have its operator put this node's {REVOKED_FILE} into its folder, and `parley ca revoked --fresh`"
        )


def _give(handle: int, folder: Path) -> None:
    """What root writes is the node's all the same: it runs as the owner of its folder."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(handle, owner.st_uid, owner.st_gid)
