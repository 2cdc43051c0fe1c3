"""What `parley join` does at an institution: a node's folder from an invitation, then its certificate and pins.

    NODE/node.toml, policy.toml          written once, from the invitation; the operator's from then on
    NODE/NAME.request                    what the lead accepts
    NODE/invitation                      the invitation as it was taken: what comes later has to agree with it
    NODE/identity/                       the key, made here; the certificate and pins, once the members are known

The invitation says who takes part and where. It has no say in what this institution permits: limits on privacy begin
with what `parley init` has for everybody, and a run that does not fit them waits for a person here.
"""

import datetime as dt
import hmac
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from parley.federation.code import is_code
from parley.federation.errors import CertificateError, FingerprintError, PinError
from parley.federation.fields import Fields
from parley.federation.names import NodeName, Role
from parley.federation.toml_text import toml_text
from parley.mpc.tables import Cover, Precision
from parley.node import installation, trust
from parley.node.authority import PEM
from parley.node.credentials import CERTIFICATE_FILE, NodeFolder, certificate_fingerprint, load_certificate, read_file
from parley.node.data_sets import DataSet
from parley.node.invitation import Admitted, Invitation, InvitationError, Member, Members, Request, read, same_number
from parley.node.node_file import (
    COORDINATOR_BUDGET,
    NODE_FILE,
    Address,
    AggregatorNode,
    AnyNode,
    CoordinatorNode,
    NoiseSettings,
    PartyNode,
)
from parley.node.node_text import node_text
from parley.node.pins import key_of, read_entries
from parley.privacy.durable import replace_durably

INVITATION_FILE, SCHEMA_FILE, POLICY_FILE = "invitation", "schema.toml", "policy.toml"
USUAL_PORTS = {"parties": 7400, "share": 7401, "control": 7402, "peer": 7403}
EPSILON_PER_RUN, DELTA_PER_RUN = 1.0, 1e-5
EPSILON_TOTAL, DELTA_TOTAL = 4.0, 1e-4
FEWEST_PARTIES = 3
NODE_HEAD = "# Where this node listens, whom it dials, which data it has: docs/federation.md, A node's folder.\n\n"
ALGORITHMS = ("auto", "ddp-srm")
Typed = Callable[[NodeName], str]
"""The number that a peer's operator reads out, as it was typed here."""


@dataclass(frozen=True)
class Begun:
    """A folder that waits for its certificate."""

    folder: Path
    request: Request
    path: Path
    """Of the request."""


def begin(
    invitation: Invitation,
    folder: Path,
    organisation: str,
    data: Sequence[Path] = (),
    texts: Mapping[str, str] | None = None,
    everywhere: bool = False,
) -> Begun:
    """The whole folder, or none: one that is there already is never touched.

    `texts` are further files of it, by name. `everywhere` listens on the usual ports of every interface, as in a
    container, whatever ports others dial.
    """
    try:
        folder.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        raise CertificateError(
            f"{folder} is there already, and nothing was written: choose another folder with --node"
        ) from None
    try:
        node = node_of(invitation, folder.absolute(), data, everywhere)
        waiting = installation.request(NodeFolder(folder / "identity"), invitation.node)
        made = Request(invitation.digest, organisation, waiting.path.read_bytes())
        path = folder / f"{invitation.node.name}.request"
        files = {
            NODE_FILE: NODE_HEAD + node_text(node),
            POLICY_FILE: policy_of(invitation),
            INVITATION_FILE: invitation.text(),
            path.name: made.text(),
        }
        for name, text in {**files, **(texts or {})}.items():
            replace_durably(folder / name, text)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Begun(folder, made, path)


def invitation_of(folder: Path) -> Invitation:
    """The one that a folder was made from."""
    return Invitation.parse(read(folder / INVITATION_FILE))


def must_type(invitation: Invitation) -> list[NodeName]:
    """Whose numbers this node's operator has to type: those on whose keys what it gives or opens depends.

    A party relies on both servers, and a server on the other one. The coordinator gives nothing away that a list could
    cost anybody; one that the authority did not sign is refused everywhere.
    """
    servers = [NodeName(invitation.node.federation, Role.aggregator, each.name) for each in invitation.aggregators]
    if invitation.node.role is Role.coordinator:
        return []
    return [each for each in servers if each != invitation.node]


def peers_in(invitation: Invitation, members: Members) -> list[Admitted]:
    """Whom a node pins: everybody whom it dials or serves. Parties know nothing of each other."""
    own = invitation.node
    return [each for each in members.admitted if each.node != own and {each.node.role, own.role} != {Role.party}]


def check(folder: Path, members: Members) -> Invitation:
    """The invitation, where the list agrees with it and with the key that was made here."""
    invitation = invitation_of(folder)
    own = invitation.node
    if members.federation != own.federation:
        raise CertificateError(f"these are the members of {members.federation}, and {folder} joins {own.federation}")
    if load_certificate(members.authority) != invitation.root:
        raise FingerprintError(
            "the list is of another authority than the invitation: ask the lead which is right, by telephone; if it is "
            "the list, remove the folder and join again by a new invitation"
        )
    mine = members.of(own)
    if mine is None:
        raise CertificateError(f"{own} is not in the list: send {own.name}.request to the lead, and ask for a new list")
    if not hmac.compare_digest(mine.pin, _own_key(NodeFolder(folder / "identity"))):
        raise CertificateError(
            f"the list has another key for {own} than the one made here: have the lead accept {own.name}.request"
        )
    ends = mine.parsed.not_valid_after_utc
    # Who has joined renews by itself, and may go on using the list that it joined by.
    if ends <= dt.datetime.now(dt.UTC) and installation.pending(NodeFolder(folder / "identity")) is not None:
        raise CertificateError(
            f"this list's certificate for {own} expired on {ends:%Y-%m-%d %H:%M} UTC: have the lead accept "
            f"{own.name}.request once more, by the same number, and send everybody the new list"
        )
    servers = {NodeName(own.federation, each.role, each.name) for each in invitation.members if each.role.serves}
    listed = {each.node for each in members.admitted if each.node.role.serves}
    if servers != listed:
        raise CertificateError("the list has other servers than the invitation: ask the lead for a new invitation")
    return invitation


def finish(folder: Path, members: Members, typed: Typed) -> Invitation:
    """Certificate and pins, if every number typed is the one that this list gives; else nothing is changed."""
    invitation = check(folder, members)
    for peer in must_type(invitation):
        if not same_number(typed(peer), members.number_of(peer)):
            raise FingerprintError(
                f"this is not the number that {peer.name} must show for this list: have its operator read it again. If "
                "it still differs, you hold different lists, and somebody has exchanged one: nothing was installed"
            )
    place, mine = NodeFolder(folder / "identity"), members.of(invitation.node)
    assert mine is not None
    _refuse_others(place, peers_in(invitation, members))
    if installation.pending(place) is not None:
        fingerprint = certificate_fingerprint(invitation.root)
        installation.install(place, mine.certificate + invitation.root.public_bytes(PEM), fingerprint)
    for each in peers_in(invitation, members):
        trust.add(place, each.node, each.pin)
    return invitation


def _refuse_others(place: NodeFolder, peers: Sequence[Admitted]) -> None:
    """Before anything is changed: a list never takes the place of a key that is pinned."""
    held = {entry.node: entry.key for entry in read_entries(place.pin_file)}
    for peer in peers:
        if held.get(peer.node, peer.pin) != peer.pin:
            raise PinError(
                f"{peer.node} is pinned to another key here than the list has: if its operator rotated it, `parley pin "
                "accept` the rotation; if the old key is lost or stolen, `parley pin add` with --replace"
            )


def _own_key(place: NodeFolder) -> bytes:
    """Of the request that waits, or of the certificate in use."""
    waiting = installation.pending(place)
    if waiting is not None:
        return waiting.pin
    return key_of(load_certificate(read_file(place.installed / CERTIFICATE_FILE)).public_key())


def node_of(invitation: Invitation, folder: Path, data: Sequence[Path], everywhere: bool = False) -> AnyNode:
    """What node.toml says at this member."""
    own, first, second = invitation.own, *invitation.aggregators
    if own.role is Role.party:
        lead = invitation.coordinator
        records = DataSet(files=tuple(data), schema=folder / SCHEMA_FILE, population="patients")
        return PartyNode(
            folder=folder,
            coordinator=lead.addresses["parties"],
            coordinator_name=lead.name,
            aggregators={each.name: each.addresses["share"] for each in (first, second)},
            data=(records,),
            epsilon=EPSILON_TOTAL,
            delta=DELTA_TOTAL,
        )
    listen = {kind: _listen(kind, address, everywhere) for kind, address in own.addresses.items()}
    if own.role is Role.aggregator:
        is_first = own.name == first.name
        return AggregatorNode(
            folder=folder,
            share=(listen["share"],),
            control=listen["control"],
            peer_name=second.name if is_first else first.name,
            peer_address=second.addresses["peer"] if is_first else None,
            peer_listener=None if is_first else listen["peer"],
            noise=_noise(invitation),
        )
    return CoordinatorNode(
        folder=folder,
        listen=(listen["parties"],),
        aggregators={each.name: each.addresses["control"] for each in (first, second)},
        epsilon=COORDINATOR_BUDGET[0],
        delta=COORDINATOR_BUDGET[1],
    )


def _listen(kind: str, address: Address, everywhere: bool) -> Address:
    """Where this node binds what others dial."""
    if everywhere:
        return Address("0.0.0.0", USUAL_PORTS[kind])
    return address if address.loopback else Address("0.0.0.0", address.port)


def _noise(invitation: Invitation) -> NoiseSettings:
    fields, usual = Fields(invitation.noise.body, "noise", InvitationError), NoiseSettings()
    covers: tuple[Cover, ...] = get_args(Cover)
    precisions: tuple[Precision, ...] = get_args(Precision)
    made = NoiseSettings(
        cover=fields.choice("cover", covers),
        precision=fields.choice("precision", precisions),
        capacity=fields.whole("capacity", 0, usual.capacity),
    )
    fields.finish()
    return made


def policy_of(invitation: Invitation) -> str:
    """policy.toml: limits of this institution's own, and whom it works with, for its operator to change."""
    least = min(FEWEST_PARTIES, len(invitation.parties))
    entities = {each.name: each.organisation for each in invitation.aggregators}
    if unknown := [name for name, organisation in entities.items() if not organisation]:
        raise InvitationError("members", f"{', '.join(unknown)}: the organisation is missing: ask for a new invitation")
    body: dict[str, Any] = {"role": invitation.node.role.value}
    budget = {"epsilon_per_run": EPSILON_PER_RUN, "delta_per_run": DELTA_PER_RUN}
    sizes = {"largest_dimension": 100_000, "largest_rounds": 5_000}
    leaders = {"coordinators": [invitation.coordinator.name]}
    if invitation.node.role is Role.aggregator:
        body |= {"minimum_parties": least, "largest_parties": 100, **sizes, **leaders, "operators": entities}
    elif invitation.node.role is Role.coordinator:
        body |= {**budget, "minimum_parties": least, **sizes, "aggregators": entities}
    else:
        kind, algorithm, unit = study_of(invitation)
        body |= {
            **budget,
            "epsilon_total": EPSILON_TOTAL,
            "epsilon_if_a_server_lies_per_run": 10.0,
            "epsilon_if_a_server_lies_total": "any",
            "minimum_parties": least,
            "largest_parties": 100,
            **sizes,
            "largest_manifest_bytes": 100_000,
            "unit_column": unit,
            "models": [] if is_code(kind) else [kind],
            "algorithms": sorted({*ALGORITHMS, algorithm}),
            **leaders,
            "aggregators": entities,
        }
    return (
        "# What this node admits without asking anybody; what does not fit waits for its operator. `parley join`\n"
        "# wrote it, with limits to begin with; `parley init DIR` writes one in which each of them is explained.\n\n"
        + toml_text(body)
        + "\n"
    )


def limits_of(invitation: Invitation) -> str:
    """What policy.toml and node.toml begin with, in one line for the person who joins a party."""
    column = study_of(invitation)[2]
    least = min(FEWEST_PARTIES, len(invitation.parties))
    return (
        f"epsilon {EPSILON_PER_RUN:g} and delta {DELTA_PER_RUN:g} for a run, {EPSILON_TOTAL:g} and {DELTA_TOTAL:g} "
        f'over all; minimum_parties = {least}; unit_column = "{column}": privacy counts for each {column or "row"}'
    )


def study_of(invitation: Invitation) -> tuple[str, str, str]:
    """Its kind of model, its algorithm, and the column that names the unit of privacy, or nothing."""
    study = Fields(invitation.study.body, "study", InvitationError)
    schema = study.table("schema")
    unit = schema.text("unit") if schema.has("unit") else ""
    return study.table("model").text("kind"), study.table("algorithm").text("name"), unit


def columns_of(invitation: Invitation) -> dict[str, Any]:
    """The study's [schema]."""
    study = Fields(invitation.study.body, "study", InvitationError)
    if not study.has("schema"):
        raise InvitationError("study.schema", "is missing: ask the lead for a new invitation")
    return study.free("schema").body


def units_of(invitation: Invitation) -> int:
    """How many units of privacy the study counts at this party."""
    study = Fields(invitation.study.body, "study", InvitationError)
    for each in study.tables("parties"):
        if each.label("name") == invitation.node.name:
            return each.whole("units", 1, 1 << 40)
    raise InvitationError("study.parties", f"does not name {invitation.node.name}: ask the lead for a new invitation")


def described(member: Member) -> str:
    """For the person who reads who takes part."""
    places = ", ".join(f"{kind} {address}" for kind, address in member.addresses.items())
    return f"{member.role} {member.name}: {member.organisation or 'organisation not said'}" + (
        f" ({places})" if places else ""
    )
