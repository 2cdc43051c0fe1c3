"""A list of revoked certificates is the authority's, newer than the last, and forgets nothing."""

import contextlib
import datetime as dt
import os
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.federation.errors import NotPinnedError, PinError, RevokedError
from parley.node import revocation, trust
from parley.node.authority import Authority, ThrowAwayAuthority
from parley.node.pins import key_of
from parley.node.revocation import MOST_BYTES, MOST_ENTRIES, REVOKED_FILE, Entry, RevocationError, held, keep, parsed
from parley.node.succession import Succession
from tests.support.bits import each_bit_changed
from tests.support.pinned import LEAD, NORTH, PARTY, SOUTH

AUTHORITY = Authority.create("cardio")
ROOT = AUTHORITY.certificate
AT = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


def key(number: int) -> bytes:
    return key_of(ec.derive_private_key(number, ec.SECP256R1()).public_key())


def entry(number: int, reason: str = "left") -> Entry:
    return Entry(number, key(number), AT, reason)


def listed(number: int, *revoked: int, authority: Authority = AUTHORITY) -> bytes:
    return authority.revoking([entry(each) for each in revoked], number).data


def test_a_list_comes_back_as_it_was_made() -> None:
    found = parsed(AUTHORITY.revoking([entry(1, "key-compromise"), entry(2)], 7).data, ROOT)
    assert (found.number, [each.serial for each in found.entries]) == (7, [1, 2])
    assert found.entries[0] == entry(1, "key-compromise")
    assert found.keys == {key(1), key(2)}
    assert abs(found.age_days) < 1


def test_nothing_is_kept_or_passed_on_that_the_authority_did_not_sign(tmp_path: Path) -> None:
    data = listed(1, 1)
    found = keep(tmp_path, b"a stranger's words\n" + data + b"and more\n", ROOT)
    assert found.data == data == (tmp_path / REVOKED_FILE).read_bytes()


def test_the_longest_list_fits_and_no_longer_one_is_read() -> None:
    whole = AUTHORITY.revoking([entry(each) for each in range(1, MOST_ENTRIES + 1)], 1)
    assert len(whole.data) < MOST_BYTES
    with pytest.raises(RevocationError):
        AUTHORITY.revoking([entry(each) for each in range(1, MOST_ENTRIES + 2)], 1)
    with pytest.raises(RevocationError, match="longer than"):
        parsed(whole.data + b" " * MOST_BYTES, ROOT)


def test_another_authority_s_list_is_refused(tmp_path: Path) -> None:
    impostor = Authority.create("cardio")  # of the same name
    for data in (listed(9, 1, authority=impostor), b"", b"rubbish", listed(9, 1)[:-60]):
        with pytest.raises(RevocationError):
            keep(tmp_path, data, ROOT)
    assert held(tmp_path, ROOT) is None
    (tmp_path / REVOKED_FILE).write_bytes(listed(9, 1, authority=impostor))
    with pytest.raises(RevocationError, match="nobody is trusted"):
        held(tmp_path, ROOT)
    with pytest.raises(RevocationError, match="nobody is trusted"):
        keep(tmp_path, listed(9, 1), ROOT)
    keep(tmp_path, listed(9, 1), ROOT, replacing=True)  # a person's word


def test_a_changed_bit_is_a_forgery_or_changes_nothing() -> None:
    """Whichever it is: for some of what comes out the library has errors of its own. A signature may be spelled in
    other ways, by whoever has no key.
    """
    whole = listed(3, 1, 2)
    said, refused = parsed(whole, ROOT), 0
    for changed in each_bit_changed(whole):
        try:
            found = parsed(changed, ROOT)
        except RevocationError:
            refused += 1
        else:
            assert (found.number, found.issued, found.entries) == (said.number, said.issued, said.entries)
    assert refused >= 8 * 400 - 7


def test_what_this_release_does_not_know_is_refused() -> None:
    """An extension may narrow what a list says: it is not guessed at."""
    number = x509.CRLNumber(1)
    strange = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.25.7"), b"\x05\x00")
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(ROOT.subject).last_update(AT).next_update(revocation.NEVER)
    )  # fmt: skip
    single = x509.RevokedCertificateBuilder().serial_number(1).revocation_date(AT)
    for made in (
        builder,
        builder.add_extension(number, critical=False).add_extension(strange, critical=False),
        builder.add_extension(number, critical=False).add_revoked_certificate(single.build()),
        builder.add_extension(number, critical=False).add_revoked_certificate(
            single.add_extension(strange, critical=False).build()
        ),
    ):
        crl = made.sign(AUTHORITY._key, hashes.SHA256())
        with pytest.raises(RevocationError, match="upgrade this node"):
            parsed(crl.public_bytes(serialization.Encoding.PEM), ROOT)


def test_lists_only_grow(tmp_path: Path) -> None:
    keep(tmp_path, listed(5, 1), ROOT)
    assert keep(tmp_path, (tmp_path / REVOKED_FILE).read_bytes(), ROOT).number == 5  # the same again
    with pytest.raises(RevocationError, match="older than"):
        keep(tmp_path, listed(4, 1, 2), ROOT)
    with pytest.raises(RevocationError, match="another than"):
        keep(tmp_path, listed(5, 1, 2), ROOT)
    with pytest.raises(RevocationError, match="forgets what list 5 revokes"):
        keep(tmp_path, listed(6, 2), ROOT)
    assert keep(tmp_path, listed(6, 1, 2), ROOT).number == 6
    assert (tmp_path / REVOKED_FILE).stat().st_mode & 0o777 == 0o600


def test_two_writers_leave_the_newer_list(tmp_path: Path) -> None:
    for number in range(1, 9):
        if os.fork() == 0:
            try:
                with contextlib.suppress(RevocationError):
                    keep(tmp_path, listed(number, 1), ROOT)
                os._exit(0)
            finally:
                os._exit(1)
    for _ in range(8):
        assert os.wait()[1] == 0
    found = held(tmp_path, ROOT)
    assert found is not None
    assert found.number == 8


def revoke(issuer: ThrowAwayAuthority, folder: Path, *gone: bytes, number: int = 1) -> None:
    entries = [Entry(place + 1, each, AT, "left") for place, each in enumerate(gone)]
    keep(folder, issuer.authority.revoking(entries, number).data, issuer.authority.certificate)


def test_a_revoked_key_is_nobodys(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    for name in (NORTH, SOUTH, LEAD):
        issuer.issue_as(name)
    folder = issuer.install(tmp_path / "party", PARTY)
    before, stamp = folder.load(), folder.stamp()
    gone = before.pins.of(NORTH)[0]
    revoke(issuer, folder.path, gone, before.pin)
    assert folder.stamp() != stamp
    pins = folder.load().pins
    assert (pins.of(NORTH), pins.is_revoked(NORTH), pins.is_revoked(SOUTH)) == ((), True, False)
    with pytest.raises(RevokedError, match="revoked parley://cardio/aggregator/north"):
        pins.require(NORTH)
    assert pins.anchors(NORTH) == pins.anchors(PARTY.__class__("cardio", NORTH.role, "nobody"))
    assert pins.of(SOUTH)
    assert pins.of(PARTY) == (before.pin,)  # its own listeners and health check
    with pytest.raises(NotPinnedError):
        pins.require(PARTY.__class__("cardio", NORTH.role, "west"))

    with pytest.raises(RevokedError):
        trust.add(folder, NORTH, gone)
    old = issuer.issue_as(NORTH)
    issuer._keys.pop(NORTH)  # a new key that the stolen one vouches for
    fresh = issuer.twin(NORTH)
    with pytest.raises(RevokedError):
        trust.accept(folder, Succession.of(old, fresh), fresh.pin)
    trust.add(folder, NORTH, fresh.pin, replacing=True)
    assert folder.load().pins.of(NORTH) == (fresh.pin,)


def test_a_list_in_doubt_is_trust_in_doubt(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    issuer.issue_as(NORTH)
    folder = issuer.install(tmp_path / "party", PARTY)
    (folder.path / REVOKED_FILE).write_text("damaged")
    with pytest.raises(PinError, match="nobody is trusted"):
        folder.load()


def test_a_number_after_which_no_list_could_follow_is_refused() -> None:
    assert parsed(listed((1 << 63) - 1), AUTHORITY.certificate).number == (1 << 63) - 1
    with pytest.raises(RevocationError):
        parsed(listed(1 << 63), AUTHORITY.certificate)
