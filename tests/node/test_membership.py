"""The lead's side: whose request is signed, and by which word."""

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from parley.federation.errors import CertificateError, FieldError, FingerprintError, WrongIdentityError
from parley.federation.names import NodeName, Role
from parley.node import installation, membership, newcomer
from parley.node.credentials import NodeFolder, load_certificate
from parley.node.invitation import SCRYPT, Members, Request
from parley.node.membership import Plan
from parley.node.revocation import Entry, keep
from tests.support.invited import NAMES, PLAN, Invited, node


@pytest.fixture
def invited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invited:
    monkeypatch.setitem(SCRYPT, "n", 2)  # dear on purpose; test_invitation.py has one as it is
    return Invited(tmp_path)


def said(number: str) -> Callable[[NodeName], str]:
    return lambda _: number


def issued(invited: Invited) -> list[str]:
    register = invited.study / "authority" / "issued.jsonl"
    return [json.loads(line)["identity"] for line in register.read_text().splitlines()] if register.exists() else []


def test_a_request_is_signed_by_the_number_that_its_operator_reads_out(invited: Invited) -> None:
    begun = invited.begin("hospital-a")
    for wrong in ("", "0000", begun.request.number[:-1], invited.begin("hospital-b").request.number):
        with pytest.raises(FingerprintError, match="nothing was signed"):
            invited.accept(begun, wrong)
    assert issued(invited) == []
    assert membership.accepted(invited.study, node("hospital-a")) is None
    assert invited.accept(begun, begun.request.number.upper().replace(":", " "))
    assert issued(invited) == [node("hospital-a").uri]


def test_a_request_exchanged_on_its_way_has_another_number(invited: Invited) -> None:
    """Whoever reads the mail answers with a key of their own; the institution reads out the number of its own."""
    honest, stranger = invited.begin("hospital-a"), invited.begin("hospital-a", at="stranger")
    with pytest.raises(FingerprintError, match="was exchanged on its way"):
        invited.accept(stranger, honest.request.number)
    said = Request.parse(honest.path.read_bytes())
    with pytest.raises(FingerprintError):
        membership.accept(
            invited.study, replace(said, organisation="Evil Ltd"), invited.authority, lambda _: said.number
        )
    assert issued(invited) == []


def test_a_request_that_is_sent_again_gets_nothing_new(invited: Invited) -> None:
    begun = invited.begin("hospital-a")
    assert invited.accept(begun)
    held = membership.accepted(invited.study, node("hospital-a"))
    assert not invited.accept(begun, "")
    assert membership.accepted(invited.study, node("hospital-a")) == held
    assert len(issued(invited)) == 1


def test_nobody_takes_an_accepted_members_place(invited: Invited) -> None:
    invited.accept(invited.begin("hospital-a"))
    again = invited.begin("hospital-a", at="again")
    with pytest.raises(CertificateError, match="was accepted before, with another key"):
        invited.accept(again)
    assert invited.accept(again, replacing=True)
    held = membership.accepted(invited.study, node("hospital-a"))
    assert held is not None
    assert held[0].pin == again.request.pin


def test_an_invitation_for_a_server_is_no_use_to_a_party(invited: Invited) -> None:
    """Its request asks for the server's name; under a party's own name it answers another invitation."""
    begun = newcomer.begin(invited.invitation("north"), invited.homes / "hospital-a", "Hospital A")
    assert begun.request.name == node("north")
    party = invited.begin("hospital-b", at="b")
    mixed = replace(Request.parse(party.path.read_bytes()), invitation=invited.invitation("north").digest)
    with pytest.raises(FingerprintError, match="answers another invitation"):
        membership.accept(invited.study, mixed, invited.authority, lambda _: mixed.number)


def test_a_request_for_another_role_or_a_stranger_is_refused(invited: Invited) -> None:
    for name, error in ((NodeName("cardio", Role.coordinator, "north"), WrongIdentityError),
                        (NodeName("cardio", Role.party, "stranger"), FieldError),
                        (NodeName("elsewhere", Role.aggregator, "north"), WrongIdentityError)):  # fmt: skip
        waiting = installation.request(NodeFolder(invited.homes / f"{name.federation}-{name.name}-{name.role}"), name)
        made = Request(invited.invitation("north").digest, "x", waiting.path.read_bytes())
        with pytest.raises(error):
            membership.accept(invited.study, made, invited.authority, said(made.number))
    assert issued(invited) == []


def test_who_was_not_invited_is_not_accepted(invited: Invited) -> None:
    begun = invited.begin("north")
    invited.invitation_file("north").unlink()
    with pytest.raises(CertificateError, match="was not invited"):
        invited.accept(begun)


def test_the_list_is_made_when_nobody_is_missing(invited: Invited) -> None:
    for name in NAMES[:-1]:
        invited.accept(invited.begin(name))
    assert [each.name for each in membership.missing(invited.study)] == [NAMES[-1]]
    with pytest.raises(CertificateError, match="hospital-b is missing"):
        membership.write_members(invited.study)
    invited.accept(invited.begin(NAMES[-1]))
    path = membership.write_members(invited.study)
    found = Members.parse(path.read_bytes())
    assert [each.node.name for each in found.admitted] == list(NAMES)
    said = {each.node.name: each.organisation for each in found.admitted}
    assert (said["hospital-a"], said["hospital-b"]) == (
        "hospital-a hospital",
        "St. Bruno",
    )  # the plan's word, if it has one
    again = membership.write_members(invited.study).read_bytes()
    assert Members.parse(again).number_of(node("north")) == found.number_of(node("north"))


def test_federation_toml_reads_back_and_is_read_strictly(invited: Invited) -> None:
    assert Plan.read(invited.study) == PLAN
    path = invited.study / membership.FEDERATION_FILE
    text = path.read_text()
    path.write_text(text.replace('peer = "south.example.org:7403"', 'peers = "south.example.org:7403"'))
    with pytest.raises(FieldError):
        Plan.read(invited.study)
    path.write_text(text.replace('role = "aggregator"\nname = "south"', 'role = "party"\nname = "south"'))
    with pytest.raises(FieldError):
        Plan.read(invited.study)
    with pytest.raises(FieldError, match="is not among the members"):
        PLAN.named("../../etc/passwd")


def test_a_revoked_member_is_in_no_list(invited: Invited) -> None:
    begun = {name: invited.begin(name) for name in NAMES}
    for each in begun.values():
        invited.accept(each)
    held = membership.accepted(invited.study, node("north"))
    assert held is not None
    entry = Entry(load_certificate(held[1]).serial_number, held[0].pin, dt.datetime.now(dt.UTC), "key-compromise")
    keep(invited.study / "authority", invited.authority.revoking([entry], 1).data, invited.authority.certificate)
    assert membership.missing(invited.study) == {node("north"): membership.REVOKED}
    for attempt in (membership.members_of, membership.write_members, lambda _: invited.accept(begun["north"])):
        with pytest.raises(CertificateError, match="north was revoked since: `parley accept --replace`"):
            attempt(invited.study)
    assert not list(invited.study.glob("*.members"))
    again = invited.begin("north", at="again")
    assert invited.accept(again, replacing=True)
    found = membership.members_of(invited.study).of(node("north"))
    assert found is not None
    assert found.pin == again.request.pin


@pytest.mark.parametrize("past", [1.0, 0.7])
def test_a_certificate_that_ended_or_soon_ends_is_signed_again_by_the_same_number(
    invited: Invited, past: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`past` is how much of its time is over: such a list would be good for nobody."""
    begun = {name: invited.begin(name) for name in NAMES}
    lasts = dt.timedelta(days=90)
    with monkeypatch.context() as earlier:
        earlier.setattr("parley.node.authority.BACKDATED", past * lasts)
        request = Request.parse(begun["hospital-a"].path.read_bytes())
        left = max((1 - past) * lasts, dt.timedelta(microseconds=1))
        membership.accept(invited.study, request, invited.authority, said(request.number), lifetime=left)
    for name in NAMES[:-2]:
        invited.accept(begun[name])
    invited.accept(begun["hospital-b"])
    expired = past == 1.0
    assert membership.missing(invited.study) == ({node("hospital-a"): membership.EXPIRED} if expired else {})
    if expired:
        with pytest.raises(CertificateError, match="hospital-a has a certificate that expired: `parley accept`"):
            membership.write_members(invited.study)
    with pytest.raises(FingerprintError, match="nothing was signed"):
        invited.accept(begun["hospital-a"], "0000")
    assert invited.accept(begun["hospital-a"])
    assert not invited.accept(begun["hospital-a"], "")
    found = membership.members_of(invited.study).of(node("hospital-a"))
    assert found is not None
    assert found.pin == begun["hospital-a"].request.pin
    assert found.parsed.not_valid_after_utc > dt.datetime.now(dt.UTC) + 0.9 * lasts
    invited.finish("hospital-a", membership.members_of(invited.study))
