"""Requests, approvals, installation: what an operator can get wrong, and what an attacker between two can do."""

import datetime as dt
import ipaddress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from parley.federation.errors import (
    CertificateError,
    FingerprintError,
    IdentityError,
    WrongAuthorityError,
    WrongIdentityError,
)
from parley.node import installation as nodes
from parley.node.authority import PEM, Authority, Validity, load_request, request_fingerprint
from parley.node.credentials import Identity, NodeFolder
from tests.support.bits import each_bit_changed
from tests.support.enrolment import AGGREGATOR, PARTY, installed


def request_for(*alternatives: x509.GeneralName, key: Any = None) -> bytes:
    """A request as an attacker might write it."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hospital-a")])
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(alternatives)), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(PEM)


def approved(authority: Authority, data: bytes) -> x509.Certificate:
    return authority.approve(data, request_fingerprint(x509.load_pem_x509_csr(data)))


def test_approval_takes_key_and_name_and_nothing_else_from_a_request(authority: Authority) -> None:
    certificate = approved(authority, request_for(x509.UniformResourceIdentifier(PARTY.uri)))
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.parametrize("given", ["", "aa", "0" * 64, "same but one"])
def test_approval_refuses_another_fingerprint(authority: Authority, tmp_path: Path, given: str) -> None:
    waiting = nodes.request(NodeFolder(tmp_path), PARTY)
    right = waiting.fingerprint
    wrong = given if given != "same but one" else right[:-1] + ("0" if right[-1] != "0" else "1")
    with pytest.raises(FingerprintError, match="exchanged"):
        authority.approve(waiting.path.read_bytes(), wrong)
    assert authority.approve(waiting.path.read_bytes(), right.upper().replace(":", " "))


@pytest.mark.parametrize(
    ("alternatives", "refusal"),
    [
        ((), WrongIdentityError),
        ((x509.DNSName("hospital-a"),), WrongIdentityError),
        ((x509.UniformResourceIdentifier("https://x"),), WrongIdentityError),
        ((x509.UniformResourceIdentifier("parley://cardio/party/"),), WrongIdentityError),
        ((x509.UniformResourceIdentifier("parley://cardio/king/a"),), WrongIdentityError),
        ((x509.UniformResourceIdentifier("parley://other/party/a"),), WrongIdentityError),
        (
            (x509.UniformResourceIdentifier(PARTY.uri), x509.UniformResourceIdentifier(AGGREGATOR.uri)),
            WrongIdentityError,
        ),
        ((x509.UniformResourceIdentifier(PARTY.uri), x509.DNSName(AGGREGATOR.host_name)), WrongIdentityError),
        ((x509.IPAddress(ipaddress.ip_address("127.0.0.1")),), WrongIdentityError),
    ],
)
def test_a_request_for_anything_but_one_name_of_this_federation_is_refused(
    authority: Authority, alternatives: tuple[x509.GeneralName, ...], refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        approved(authority, request_for(*alternatives))


def test_a_request_with_another_kind_of_key_or_a_spoilt_signature_is_refused(authority: Authority) -> None:
    uri = x509.UniformResourceIdentifier(PARTY.uri)
    with pytest.raises(CertificateError, match="elliptic"):
        approved(authority, request_for(uri, key=rsa.generate_private_key(65537, 2048)))
    whole = x509.load_pem_x509_csr(request_for(uri)).public_bytes(serialization_der())
    other = x509.load_der_x509_csr(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CertificateError, match="signed"):
        authority.approve(other.public_bytes(PEM), request_fingerprint(other))
    with pytest.raises(CertificateError, match="not a PEM"):
        load_request(b"nonsense")


def serialization_der() -> Any:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.DER


@pytest.mark.parametrize("days", [0, -1, 399])
def test_a_nodes_certificate_lasts_a_year_at_most(tmp_path: Path, authority: Authority, days: int) -> None:
    waiting = nodes.request(NodeFolder(tmp_path), PARTY)
    with pytest.raises(CertificateError, match="days"):
        authority.approve(waiting.path.read_bytes(), waiting.fingerprint, dt.timedelta(days=days))


def test_a_node_cannot_sign_for_others(authority: Authority, tmp_path: Path) -> None:
    node = installed(tmp_path, authority).load()
    key = ec.generate_private_key(ec.SECP256R1())
    as_authority = Authority("cardio", _private(node), node.parsed)
    forged = as_authority.sign(key.public_key(), PARTY, Validity.lasting(dt.timedelta(days=1)))
    identity = Identity(node.key, forged.public_bytes(PEM), node.certificate)
    with pytest.raises(WrongAuthorityError, match="may not sign"):
        identity.check()


def _private(identity: Identity) -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(identity.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def test_the_authoritys_key_opens_only_with_its_passphrase(tmp_path: Path) -> None:
    made = Authority.create("cardio")
    made.save(tmp_path / "ca", b"correct horse battery")
    assert Authority.load(tmp_path / "ca", b"correct horse battery").fingerprint == made.fingerprint
    for passphrase, says in ((None, "is encrypted"), (b"wrong horse battery!", "passphrase is wrong")):
        with pytest.raises(CertificateError, match=says):
            Authority.load(tmp_path / "ca", passphrase)
    assert b"ENCRYPTED" in (tmp_path / "ca" / "authority.key").read_bytes()
    with pytest.raises(CertificateError, match="already"):
        Authority.create("cardio").save(tmp_path / "ca", None)
    with pytest.raises(CertificateError, match="short"):
        made.save(tmp_path / "other", b"short")
    with pytest.raises(IdentityError):
        Authority.create("Cardio Inc.")


def test_a_request_of_which_a_bit_was_changed_is_refused_or_asks_for_the_same() -> None:
    """Whichever it is: for some of what comes out the library has errors of its own. A signature may be spelled in
    other ways, by whoever has no key.
    """
    data = request_for(x509.UniformResourceIdentifier("parley://cardio/party/hospital-a"))
    (asked, name), refused = load_request(data), 0
    for changed in each_bit_changed(data):
        try:
            found = load_request(changed)
        except (CertificateError, WrongIdentityError):
            refused += 1
        else:
            assert (found[1], found[0].tbs_certrequest_bytes) == (name, asked.tbs_certrequest_bytes)
    assert refused > 8 * 240
