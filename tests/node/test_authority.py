"""Requests, approvals, installation: what an operator can get wrong, and what an attacker between two can do."""

import datetime as dt
import ipaddress
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from parley.federation.errors import (
    CertificateError,
    ExpiredError,
    FingerprintError,
    IdentityError,
    KeyExposedError,
    WrongAuthorityError,
    WrongIdentityError,
)
from parley.federation.names import NodeName, Role
from parley.node import installation as nodes
from parley.node.authority import PEM, Authority, ThrowAwayAuthority, Validity, load_request, request_fingerprint
from parley.node.credentials import Identity, NodeFolder, check_usage, write_private
from tests.cli.test_bench import answer, parley
from tests.support.documents import BODY

PARTY = NodeName("cardio", Role.party, "hospital-a")
AGGREGATOR = NodeName("cardio", Role.aggregator, "north")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("cardio")


def bundle(authority: Authority, certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(PEM) + authority.certificate.public_bytes(PEM)


def installed(tmp_path: Path, authority: Authority, name: NodeName = AGGREGATOR) -> NodeFolder:
    folder = NodeFolder(tmp_path / "node")
    waiting = nodes.request(folder, name)
    certificate = authority.approve(waiting.path.read_bytes(), waiting.fingerprint)
    nodes.install(folder, bundle(authority, certificate), authority.fingerprint)
    return folder


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


def test_a_partys_certificate_is_for_dialling_only(tmp_path: Path, authority: Authority) -> None:
    identity = installed(tmp_path, authority, PARTY).load()
    assert list(identity.parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.CLIENT_AUTH
    ]
    with pytest.raises(CertificateError, match="purposes"):
        check_usage(identity.parsed, AGGREGATOR)


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
    with pytest.raises(CertificateError, match="no PEM"):
        load_request(b"nonsense")


def serialization_der() -> Any:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.DER


@pytest.mark.parametrize("days", [0, -1, 399])
def test_a_nodes_certificate_lasts_a_year_at_most(tmp_path: Path, authority: Authority, days: int) -> None:
    waiting = nodes.request(NodeFolder(tmp_path), PARTY)
    with pytest.raises(CertificateError, match="days"):
        authority.approve(waiting.path.read_bytes(), waiting.fingerprint, dt.timedelta(days=days))


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


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, authority: Authority, mode: int) -> None:
    folder = installed(tmp_path, authority)
    os.chmod(folder.current / "node.key", mode)
    with pytest.raises(KeyExposedError, match="chmod 600"):
        folder.load()


def test_an_expired_identity_says_so_before_anything_is_dialled(tmp_path: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    expired = ThrowAwayAuthority("cardio").issue_as(
        PARTY, Validity(now - dt.timedelta(days=2), now - dt.timedelta(days=1))
    )
    with pytest.raises(ExpiredError, match="node renew"):
        expired.check()


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


def test_the_commands_take_a_node_from_request_to_renewal(tmp_path: Path) -> None:
    ca, node, out = str(tmp_path / "ca"), str(tmp_path / "node"), str(tmp_path / "north.pem")
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery\n")
    secret.chmod(0o600)
    unlock = ["--folder", ca, "--passphrase-file", str(secret)]
    root = answer(parley("ca", "init", "cardio", *unlock, "--json"))
    assert root["encrypted"]
    asked = answer(parley("node", "request", AGGREGATOR.uri, "--folder", node, "--json"))
    assert answer(parley("node", "show", "--folder", node, "--json"))["fingerprint"] == asked["fingerprint"]
    assert answer(parley("ca", "inspect", asked["request"], "--json"))["fingerprint"] == asked["fingerprint"]
    refused = parley("ca", "approve", asked["request"], "--fingerprint", "00", "--out", out, *unlock)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: the fingerprint given is not that of this request")
    assert not Path(out).exists()
    approve = ["ca", "approve", asked["request"], "--out", out, *unlock, "--json"]
    given = answer(parley(*approve, "--fingerprint", asked["fingerprint"]))
    shown = answer(parley("node", "install", out, "--authority", root["fingerprint"], "--folder", node, "--json"))
    assert shown["fingerprint"] == given["fingerprint"]
    assert shown["identity"] == AGGREGATOR.uri
    again = answer(parley("node", "rotate", "--folder", node, "--json"))
    both = answer(parley("node", "show", "--folder", node, "--json"))
    assert (both["fingerprint"], both["pending_fingerprint"]) == (given["fingerprint"], again["fingerprint"])
    assert len((tmp_path / "ca" / "issued.jsonl").read_text().splitlines()) == 1
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or path.suffix != ".key" or path.stat().st_mode & 0o077 == 0


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {inline(each)}" for key, each in value.items()) + "}"
    return "[" + ", ".join(map(inline, value)) + "]" if isinstance(value, list) else json.dumps(value)


def test_a_manifest_is_checked_and_explained(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    text = "\n".join(f"{key} = {inline(value)}" for key, value in BODY.items())
    file.write_text(text)
    found = answer(parley("manifest", "check", str(file), "--json"))
    promised = {"epsilon", "delta", "digest", "parties", "rounds", "unit", "relation", "precision", "range_margin_bits"}
    assert promised <= set(found)
    assert found["epsilon"] <= found["epsilon_claimed"] == 2.0
    assert answer(parley("manifest", "digest", str(file), "--json"))["digest"] == found["digest"]
    assert parley("manifest", "digest", str(file)).stdout.strip() == found["digest"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("fraction_bits = 16", "fraction_bit = 16", "noise.fraction_bits: is missing; did you mean 'fraction_bit'"),
        ("dimension = 3", "dimension = 4", "model.dimension: is 4"),
        ("steps = 39", "steps = 38", "mechanism.steps: is 38"),
        ('"ddp-srm"', '"magic"', "algorithm: no algorithm 'magic'"),
        ("passes = 3.95", "pases = 3.95", "algorithm: ddp-srm has no parameter 'pases'"),
        ("weight = 0.001", 'weight = "much"', "regulariser: "),
        ("high = 90.0", "hihg = 90.0", "schema: "),
        ("low = 20.0", 'low = "young"', "schema: "),
    ],
)
def test_a_manifest_that_this_installation_cannot_follow_is_refused_in_one_line(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    text = "\n".join(f"{key} = {inline(value)}" for key, value in BODY.items())
    assert old in text
    file = tmp_path / "run.toml"
    file.write_text(text.replace(old, new))
    done = parley("manifest", "check", str(file))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(f"error: {says}")
