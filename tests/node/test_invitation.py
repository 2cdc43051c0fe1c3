"""Invitations, requests and lists of members: what a stranger may put into them, and what two people compare."""

import base64
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.errors import ParleyError
from parley.federation.errors import CertificateError, FieldError, WrongAuthorityError
from parley.node import membership
from parley.node.authority import NODE_LIFETIME, PEM, Authority, ThrowAwayAuthority, Validity
from parley.node.invitation import (
    MOST_BYTES,
    MOST_MEMBERS,
    SCRYPT,
    Invitation,
    Members,
    Request,
    number,
    read,
    same_number,
)
from parley.node.pins import key_text, public_key
from tests.support.invited import FEDERATION, NAMES, Invited, node

Change = Callable[[str], str]


@pytest.fixture
def invited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invited:
    monkeypatch.setitem(SCRYPT, "n", 2)  # dear on purpose; as it is in the test of a number's digits
    return Invited(tmp_path)


def test_each_of_the_three_files_reads_back_as_itself(invited: Invited) -> None:
    for name in NAMES:
        first = invited.invitation(name)
        assert Invitation.parse(first.text().encode()) == first
        assert Invitation.parse(first.text().encode()).digest == first.digest
    members = invited.everybody()
    assert Members.parse(members.text().encode()) == members
    made = Request.parse((invited.homes / "north" / "north.request").read_bytes())
    assert Request.parse(made.text().encode()) == made
    assert (made.name, made.organisation) == (node("north"), "north hospital")


def test_none_of_them_holds_a_secret(invited: Invited) -> None:
    invited.everybody()
    secrets = [serialization.load_pem_private_key(path.read_bytes(), None) for path in invited.homes.rglob("*.key")]
    assert len(secrets) == len(NAMES) + 1
    sent = [invited.invitation_file(name) for name in NAMES]
    sent += [invited.homes / name / f"{name}.request" for name in NAMES]
    sent.append(membership.write_members(invited.study))
    for path in sent:
        text = path.read_text()
        assert "PRIVATE" not in text
        held = b"".join(base64.b64decode(block) for block in re.findall(r"(?:[A-Za-z0-9+/=]{4})+", text))
        for secret in secrets:
            assert isinstance(secret, ec.EllipticCurvePrivateKey)
            scalar = secret.private_numbers().private_value.to_bytes(32, "big")
            assert scalar not in held
            assert scalar.hex() not in text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: text.replace('name = "hospital-a"', 'name = "../hospital-a"'), "use 1 to 63 of a-z"),
        (lambda text: text.replace('name = "hospital-a"', 'name = "/etc"'), "use 1 to 63 of a-z"),
        (lambda text: text.replace('name = "hospital-a"', 'name = "a\\u001b[2J"'), "one line of text"),
        (lambda text: text.replace("Heart Study Group", "Heart\\u001b[31m"), "one line of text"),
        (lambda text: text.replace("Heart Study Group", "Heart \\u202e Group"), "one line of text"),
        (lambda text: text.replace("Heart Study Group", "H" * 201), "at most 200"),
        (lambda text: text.replace("lead.example.org:7400", "lead.example.org:0"), "give host:port"),
        (lambda text: text.replace("lead.example.org:7400", "lead$(id):7400"), "give host:port"),
        (lambda text: text.replace("lead.example.org:7400", "a b:7400"), "give host:port"),
        (
            lambda text: text.replace('role = "party"\nname = "hospital-a"', 'role = "king"\nname = "hospital-a"'),
            "use p",
        ),
        (
            lambda text: text.replace(f'federation = "{FEDERATION}"', 'federation = "other"', 1),
            "is not that of federation",
        ),
        (lambda text: text.replace("parley =", "extra = 1\nparley ="), "extra: is unknown"),
        (lambda text: text.replace("-----BEGIN CERTIFICATE", "-----BEGIN NOTHING"), "is not a PEM certificate"),
        (lambda text: text.replace("invitation 1", "invitation 2"), "does not say"),
        (lambda text: text.replace("invitation 1", "request 1"), "is request, and invitation was due"),
        (lambda text: text.replace('name = "south"', 'name = "north"'), "has a name twice"),
        (
            lambda text: re.sub(r'^name = "hospital-a"', 'name = "stranger"', text, flags=re.MULTILINE, count=1),
            "not among",
        ),
    ],
)
def test_what_a_stranger_may_not_write(invited: Invited, change: Change, problem: str) -> None:
    text = invited.invitation_file("hospital-a").read_text()
    assert change(text) != text
    with pytest.raises(ParleyError, match=re.escape(problem)) as refused:
        Invitation.parse(change(text).encode())
    assert str(refused.value).isprintable()


def test_a_file_is_bounded_before_it_is_looked_at(tmp_path: Path) -> None:
    huge = tmp_path / "huge.invitation"
    with huge.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(FieldError, match="over 1 MiB"):
        read(huge)
    with pytest.raises(FieldError, match="no regular file"):
        read(Path("/dev/zero"))


def test_more_members_than_can_be_are_refused_unread(invited: Invited) -> None:
    text = invited.invitation("north").text()
    more = "".join(f'\n[[members]]\nrole = "party"\nname = "p{count}"\n' for count in range(MOST_MEMBERS))
    with pytest.raises(FieldError, match=f"at most {MOST_MEMBERS}"):
        Invitation.parse(text.replace("\n[noise]", f"{more}\n[noise]").encode())


def test_a_number_binds_the_invitation_the_organisation_and_the_key(invited: Invited) -> None:
    request = Request.parse(invited.begin("hospital-a").path.read_bytes())
    other = Request.parse(invited.begin("hospital-a", at="again").path.read_bytes())
    assert len({request.number, other.number}) == 2  # another key
    assert replace(request, invitation="0" * 64).number != request.number
    assert replace(request, organisation="Somebody").number != request.number
    digests = {invited.invitation(name).digest for name in NAMES}
    assert len(digests) == len(NAMES)  # of another role or name


def test_the_invitations_digest_binds_the_authority_and_every_address(invited: Invited) -> None:
    first = invited.invitation("hospital-a")
    forged = replace(first, authority=_root(Authority.create(FEDERATION)))
    moved = Invitation.parse(first.text().replace("north.example.org:7401", "evil.example.org:7401").encode())
    assert len({first.digest, forged.digest, moved.digest}) == 3


def _root(authority: Authority) -> bytes:
    return authority.certificate.public_bytes(PEM)


def test_every_node_shows_another_number_of_one_list(invited: Invited) -> None:
    """So nobody can read one's own screen back, and a party types what only north's screen shows."""
    members = invited.everybody()
    shown = [members.number_of(node(name)) for name in NAMES]
    assert len(set(shown)) == len(NAMES)
    changed = replace(members, admitted=members.admitted[:-1])
    assert not set(shown) & {changed.number_of(node(name)) for name in NAMES}


def test_all_digits_of_a_number_count() -> None:
    said = number("request", {"a": 1})
    assert said == "0801:781d:0007:d869:9c01:a2cc:15db:1855"
    assert SCRYPT["n"] * SCRYPT["r"] * 128 == 32 << 20
    assert re.fullmatch(r"([0-9a-f]{4}:){7}[0-9a-f]{4}", said)
    assert same_number(said.upper().replace(":", " "), said)
    assert same_number(said.replace(":", "-") + "\n", said)
    for other in ("", said[:-1], said[5:], said + "0", ("0" if said[0] != "0" else "1") + said[1:]):
        assert not same_number(other, said)


def test_a_list_holds_what_its_authority_signed_and_nothing_else(invited: Invited) -> None:
    members = invited.everybody()
    foreign = ThrowAwayAuthority(FEDERATION)
    mine = members.of(node("south"))
    assert mine is not None

    def listed(certificate: bytes) -> bytes:
        swapped = tuple(replace(each, certificate=certificate) if each == mine else each for each in members.admitted)
        return replace(members, admitted=swapped).text().encode()

    with pytest.raises(WrongAuthorityError):
        Members.parse(listed(foreign.issue_as(node("south")).certificate))
    north = members.of(node("north"))
    assert north is not None
    with pytest.raises(FieldError, match="is that of parley://cardio/aggregator/north"):
        Members.parse(listed(north.certificate))
    tampered = members.text().replace(key_text(mine.pin), key_text(north.pin))
    with pytest.raises(FieldError, match="is not that of the certificate"):
        Members.parse(tampered.encode())


def test_no_two_members_have_one_key(invited: Invited) -> None:
    members, authority = invited.everybody(), invited.authority

    north = members.of(node("north"))
    assert north is not None
    twin = authority.sign(public_key(north.pin), node("south"), Validity.lasting(NODE_LIFETIME)).public_bytes(PEM)
    swapped = tuple(
        replace(each, certificate=twin) if each.node == node("south") else each for each in members.admitted
    )
    with pytest.raises(FieldError, match="one key for two members"):
        Members.parse(replace(members, admitted=swapped).text().encode())


def test_a_request_is_signed_by_its_own_key(invited: Invited) -> None:
    text = invited.begin("hospital-a").path.read_text()
    with pytest.raises(CertificateError):
        Request.parse(text.replace("BEGIN CERTIFICATE REQUEST", "BEGIN CERTIFICATE").encode())
    with pytest.raises(FieldError, match="is no digest"):
        Request.parse(re.sub(r'invitation = "\w+"', 'invitation = "../../etc"', text).encode())
