"""What an institution's folder holds after an invitation, and which lists of members it takes."""

import datetime as dt
import os
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from parley.federation.errors import CertificateError, FingerprintError, PinError
from parley.federation.names import Role
from parley.federation.policy import ROLES
from parley.federation.policy_file import read_policy
from parley.node import membership, newcomer, trust
from parley.node.authority import PEM, Authority, Validity
from parley.node.credentials import NodeFolder
from parley.node.invitation import SCRYPT, InvitationError, Members
from parley.node.node_file import Address, AggregatorNode, CoordinatorNode, PartyNode, read_node
from parley.node.pins import read_entries
from tests.support.invited import FEDERATION, NAMES, Invited, node


@pytest.fixture
def invited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invited:
    monkeypatch.setitem(SCRYPT, "n", 2)  # dear on purpose; test_invitation.py has one as it is
    return Invited(tmp_path)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_written_is_what_nodes_read(invited: Invited) -> None:
    for name in NAMES:
        home = invited.begin(name).folder
        found = read_node(home)
        assert found.role is ROLES[type(read_policy(home / "policy.toml"))] is node(name).role
        assert home.stat().st_mode & 0o777 == 0o700
        assert (home / "node.toml").stat().st_mode & 0o777 == 0o600
    north, south, lead, party = (read_node(invited.homes / each) for each in ("north", "south", "lead", "hospital-a"))
    assert isinstance(north, AggregatorNode)
    assert isinstance(south, AggregatorNode)
    assert isinstance(lead, CoordinatorNode)
    assert isinstance(party, PartyNode)
    assert (north.index, south.index, str(north.peer_address)) == (0, 1, "south.example.org:7403")
    assert (south.peer_listener, north.share[0]) == (Address("0.0.0.0", 7403), Address("0.0.0.0", 7401))
    assert str(lead.aggregators["south"]) == "south.example.org:7402"
    assert (party.coordinator_name, str(party.aggregators["north"])) == ("lead", "north.example.org:7401")


def test_the_invitation_has_no_say_in_what_a_party_permits(invited: Invited) -> None:
    generous = invited.invitation("hospital-a")
    study = {**generous.study.body, "privacy": {"epsilon": 1000.0, "delta": 0.4}, "rounds": {"minimum_parties": 1}}
    asked = replace(generous, study=type(generous.study).of(study))
    home = newcomer.begin(asked, invited.homes / "a", "", [Path("/records.csv")]).folder
    usual = newcomer.policy_of(generous)
    assert (home / "policy.toml").read_text() == usual
    assert "epsilon_per_run = 1.0" in usual
    assert "minimum_parties = 2" in usual  # there are two: more is impossible


def test_own_code_is_never_admitted_by_joining(invited: Invited) -> None:
    first = invited.invitation("hospital-a")
    study = {**first.study.body, "model": {"kind": "torch:evil.module:build"}}
    assert "models = []" in newcomer.policy_of(replace(first, study=type(first.study).of(study)))


def test_a_folder_that_is_there_is_never_touched(invited: Invited) -> None:
    home = invited.begin("hospital-a").folder
    before = everything(home)
    with pytest.raises(CertificateError, match="is there already, and nothing was written"):
        invited.begin("hospital-a")
    empty = invited.homes / "empty"
    empty.mkdir()
    with pytest.raises(CertificateError, match="is there already"):
        invited.begin("hospital-b", at="empty")
    link = invited.homes / "link"
    link.symlink_to(invited.homes / "nowhere")
    with pytest.raises(CertificateError, match="is there already"):
        invited.begin("hospital-b", at="link")
    assert everything(home) == before
    assert list(empty.iterdir()) == []


def test_what_fails_leaves_no_folder(invited: Invited) -> None:
    first = invited.invitation("north")
    wrong = replace(
        first, noise=type(first.noise).of({"cover": "strips", "precision": "standard", "capacity": 1 << 40})
    )
    with pytest.raises(InvitationError, match="capacity"):
        invited.begin("north", wrong)
    assert not (invited.homes / "north").exists()


def test_a_list_gives_certificate_and_pins(invited: Invited) -> None:
    members = invited.everybody()
    for name in NAMES:
        invited.finish(name, members)
        here = read_node(invited.homes / name)
        identity = here.identity.load()
        assert identity.name == node(name)
        trust.require(here)
        pinned = {each.node.name for each in read_entries(here.identity.pin_file)}
        parties = {"hospital-a", "hospital-b"} if node(name).role is not Role.party else set()
        assert pinned == ({"lead", "north", "south"} | parties) - {name}
    assert trust.needed(here, FEDERATION)


def test_who_types_whose_number(invited: Invited) -> None:
    asked = {name: [each.name for each in newcomer.must_type(invited.invitation(name))] for name in NAMES}
    assert asked == {
        "lead": [],
        "north": ["south"],
        "south": ["north"],
        "hospital-a": ["north", "south"],
        "hospital-b": ["north", "south"],
    }


def exchanged(invited: Invited, name: str) -> Members:
    """The authority's own list with another key of its making for that node: what only a dishonest lead can do."""
    from cryptography.hazmat.primitives.asymmetric import ec

    from parley.node.authority import NODE_LIFETIME, Validity

    members, authority = membership.members_of(invited.study), invited.authority
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    forged = authority.sign(key, node(name), Validity.lasting(NODE_LIFETIME)).public_bytes(PEM)
    return Members.parse(
        replace(
            members,
            admitted=tuple(
                replace(each, certificate=forged) if each.node == node(name) else each for each in members.admitted
            ),
        )
        .text()
        .encode()
    )


@pytest.mark.parametrize("server", ["north", "south"])
def test_a_lead_that_gives_a_hospital_another_key_for_a_server_is_found_out(invited: Invited, server: str) -> None:
    """Every certificate in the forged list is sound. What differs is the number that the servers' operators read."""
    honest = invited.everybody()
    forged = exchanged(invited, server)
    before = everything(invited.homes / "hospital-a")
    with pytest.raises(FingerprintError, match="you hold different lists"):
        invited.finish("hospital-a", forged, shown=honest)
    assert everything(invited.homes / "hospital-a") == before
    other = "south" if server == "north" else "north"
    with pytest.raises(FingerprintError):
        invited.finish(other, forged, shown=honest)


def test_a_party_types_the_number_of_each_server(invited: Invited) -> None:
    """One server's word for the other's key is not taken, nor a number that the own screen shows."""
    members = invited.everybody()
    one = members.number_of(node("north"))
    own = members.number_of(node("hospital-a"))
    for said in (one, own, ""):
        typed = dict.fromkeys((node("north"), node("south")), said)
        with pytest.raises(FingerprintError):
            newcomer.finish(invited.homes / "hospital-a", members, typed.__getitem__)
    assert not (invited.homes / "hospital-a" / "identity" / "pins.toml").exists()
    assert not NodeFolder(invited.homes / "hospital-a" / "identity").current.is_symlink()


def test_the_own_key_is_the_one_that_was_made_here(invited: Invited) -> None:
    invited.everybody()
    forged = exchanged(invited, "hospital-a")
    with pytest.raises(CertificateError, match="another key for"):
        invited.finish("hospital-a", forged)


def test_a_list_of_another_authority_is_refused(invited: Invited, tmp_path: Path) -> None:
    invited.everybody()
    (tmp_path / "elsewhere").mkdir()
    other = Invited(tmp_path / "elsewhere").everybody()
    with pytest.raises(FingerprintError, match="of another authority than the invitation"):
        invited.finish("hospital-a", other)


def test_a_list_without_this_node_or_with_other_servers_is_refused(invited: Invited) -> None:
    members = invited.everybody()
    without = [replace(members, admitted=tuple(x for x in members.admitted if x.node != node(name)))
               for name in ("hospital-a", "south")]  # fmt: skip
    with pytest.raises(CertificateError, match="is not in the list"):
        invited.finish("hospital-a", without[0])
    with pytest.raises(CertificateError, match="other servers than the invitation"):
        invited.finish("hospital-a", without[1])


def test_a_pinned_key_is_never_replaced_by_a_list(invited: Invited) -> None:
    """Taking the same list again changes nothing; one with another key changes nothing either, whatever is typed."""
    members = invited.everybody()
    invited.finish("hospital-a", members)
    before = everything(invited.homes / "hospital-a")
    invited.finish("hospital-a", members)
    with pytest.raises(PinError, match="is pinned to another key here"):
        invited.finish("hospital-a", exchanged(invited, "north"))
    assert everything(invited.homes / "hospital-a") == before


def test_an_interrupted_end_goes_on(invited: Invited, monkeypatch: pytest.MonkeyPatch) -> None:
    members = invited.everybody()
    real = trust.add

    def dies(folder: NodeFolder, peer: object, key: bytes) -> object:
        if peer == node("south"):
            raise OSError("the machine stopped")
        return real(folder, peer, key)  # type: ignore[arg-type]

    monkeypatch.setattr(trust, "add", dies)
    with pytest.raises(OSError, match="stopped"):
        invited.finish("hospital-a", members)
    monkeypatch.setattr(trust, "add", real)
    invited.finish("hospital-a", members)
    trust.require(read_node(invited.homes / "hospital-a"))


def test_an_invitation_by_a_stranger_makes_a_request_that_the_lead_refuses(invited: Invited) -> None:
    """The mail was exchanged: another authority, and so another digest than the lead's own copy has."""
    forged = replace(invited.invitation("hospital-a"), authority=_root(Authority.create(FEDERATION)))
    begun = invited.begin("hospital-a", forged)
    with pytest.raises(FingerprintError, match="answers another invitation"):
        invited.accept(begun)
    assert os.listdir(invited.study / "invitations")
    assert membership.accepted(invited.study, node("hospital-a")) is None


def _root(authority: Authority) -> bytes:
    return authority.certificate.public_bytes(PEM)


def test_an_old_list_whose_certificate_expired_says_who_mends_it(invited: Invited) -> None:
    """A node without a certificate cannot renew one."""
    members, own = invited.everybody(), node("hospital-a")
    mine = members.of(own)
    assert mine is not None
    key = mine.parsed.public_key()
    now = dt.datetime.now(dt.UTC)
    ended = Validity(now - dt.timedelta(days=90), now - dt.timedelta(days=1))
    assert isinstance(key, ec.EllipticCurvePublicKey)
    old = replace(mine, certificate=invited.authority.sign(key, own, ended).public_bytes(PEM))
    listed = replace(members, admitted=tuple(old if each.node == own else each for each in members.admitted))
    before = everything(invited.homes / "hospital-a")
    with pytest.raises(CertificateError, match=r"have the lead accept hospital-a\.request once more"):
        invited.finish("hospital-a", Members.parse(listed.text().encode()))
    assert everything(invited.homes / "hospital-a") == before
    invited.finish("hospital-a", members)
    invited.finish("hospital-a", Members.parse(listed.text().encode()))  # it has one that is good


def test_the_limits_that_begin_by_the_invitation_are_named(invited: Invited) -> None:
    asked = invited.invitation("hospital-a")
    assert 'minimum_parties = 2; unit_column = ""' in newcomer.limits_of(asked)
    schema = {**asked.study.body["schema"], "unit": "patient"}
    by_patient = replace(asked, study=type(asked.study).of({**asked.study.body, "schema": schema}))
    assert 'unit_column = "patient"' in newcomer.limits_of(by_patient)
    for line in newcomer.limits_of(by_patient).split("; ")[1:]:
        assert line.partition(":")[0] in newcomer.policy_of(by_patient)
