"""A certificate gets to its node, once and again."""

import datetime as dt
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from parley.federation.errors import (
    CertificateError,
    FingerprintError,
    WrongAuthorityError,
    WrongIdentityError,
)
from parley.node import installation as nodes
from parley.node.authority import PEM, Authority, Validity, load_request
from parley.node.credentials import NodeFolder, write_private
from tests.support.enrolment import AGGREGATOR, PARTY, bundle, installed


def test_a_node_is_installed_and_its_key_stayed_private(tmp_path: Path, authority: Authority) -> None:
    folder = installed(tmp_path, authority)
    identity = folder.load()
    assert identity.name == AGGREGATOR
    assert (folder.current / "node.key").stat().st_mode & 0o777 == 0o600
    assert not (folder.path / "pending").exists()
    usage = identity.parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    basic = identity.parsed.extensions.get_extension_for_class(x509.BasicConstraints)
    assert basic.critical
    assert not basic.value.ca
    assert dt.timedelta(days=89) < identity.expires - dt.datetime.now(dt.UTC) <= dt.timedelta(days=90)


def test_the_first_installation_needs_the_authoritys_fingerprint(tmp_path: Path, authority: Authority) -> None:
    folder = NodeFolder(tmp_path / "node")
    waiting = nodes.request(folder, PARTY)
    impostor = Authority.create("cardio")
    forged = impostor.approve(waiting.path.read_bytes(), waiting.fingerprint)
    with pytest.raises(FingerprintError, match="needs --authority"):
        nodes.install(folder, bundle(impostor, forged), None)
    with pytest.raises(FingerprintError, match="exchanged"):
        nodes.install(folder, bundle(impostor, forged), authority.fingerprint)
    mixed = forged.public_bytes(PEM) + authority.certificate.public_bytes(PEM)
    with pytest.raises(WrongAuthorityError):
        nodes.install(folder, mixed, authority.fingerprint)
    with pytest.raises(CertificateError, match="two certificates"):
        nodes.install(folder, forged.public_bytes(PEM), impostor.fingerprint)
    assert not folder.current.is_symlink()


def test_a_certificate_for_another_node_or_another_key_is_not_installed(tmp_path: Path, authority: Authority) -> None:
    folder = NodeFolder(tmp_path / "node")
    nodes.request(folder, PARTY)
    other = nodes.request(NodeFolder(tmp_path / "other"), PARTY)
    certificate = authority.approve(other.path.read_bytes(), other.fingerprint)
    with pytest.raises(CertificateError, match="do not belong together"):
        nodes.install(folder, bundle(authority, certificate), authority.fingerprint)
    made, _ = load_request((folder.path / "pending" / "request.pem").read_bytes())
    key = made.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    renamed = authority.sign(key, AGGREGATOR, Validity.lasting(dt.timedelta(days=1)))
    with pytest.raises(WrongIdentityError, match="the request was for"):
        nodes.install(folder, bundle(authority, renamed), authority.fingerprint)


def test_renewal_keeps_the_old_certificate_until_the_new_one_is_in(tmp_path: Path, authority: Authority) -> None:
    folder = installed(tmp_path, authority)
    before, key = folder.load(), (folder.current / "node.key").read_bytes()
    waiting = nodes.rotate(folder)
    assert folder.load() == before
    assert waiting.name == AGGREGATOR
    with pytest.raises(CertificateError, match="waits for approval already"):
        nodes.rotate(folder)
    certificate = authority.approve(waiting.path.read_bytes(), waiting.fingerprint)
    after = nodes.install(folder, bundle(authority, certificate), None)
    assert after == folder.load() != before
    assert after.key != key
    before.check()  # overlap


def test_renewal_from_another_authority_needs_its_fingerprint(tmp_path: Path, authority: Authority) -> None:
    folder = installed(tmp_path, authority)
    successor = Authority.create("cardio")
    waiting = nodes.rotate(folder)
    data = bundle(successor, successor.approve(waiting.path.read_bytes(), waiting.fingerprint))
    with pytest.raises(FingerprintError, match="another authority"):
        nodes.install(folder, data, None)
    assert nodes.install(folder, data, successor.fingerprint).authority == successor.certificate.public_bytes(PEM)


def test_interrupted_steps_can_be_taken_again(tmp_path: Path, authority: Authority) -> None:
    folder = NodeFolder(tmp_path / "node")
    (folder.path / "pending").mkdir(parents=True)
    (folder.path / "pending" / "node.key").write_text("half")
    waiting = nodes.request(folder, PARTY)
    data = bundle(authority, authority.approve(waiting.path.read_bytes(), waiting.fingerprint))
    key = (folder.path / "pending" / "node.key").read_bytes()
    request = waiting.path.read_bytes()
    nodes.install(folder, data, authority.fingerprint)
    (folder.path / "pending").mkdir()  # as if killed before `pending` was removed
    write_private(folder.path / "pending" / "node.key", key)
    waiting.path.write_bytes(request)
    assert nodes.install(folder, data, None).name == PARTY


def test_a_folder_belongs_to_one_node(tmp_path: Path, authority: Authority) -> None:
    folder = installed(tmp_path, authority)
    with pytest.raises(WrongIdentityError, match="another folder"):
        nodes.request(folder, PARTY)
    with pytest.raises(CertificateError, match="no certificate installed"):
        NodeFolder(tmp_path / "empty").load()
