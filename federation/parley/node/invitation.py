"""The three files by which an institution becomes a member of a federation. None of them holds a secret.

    NAME.invitation     lead -> institution   the authority, who takes part and where, the study, a role and a name
    NAME.request        institution -> lead   a request for a certificate, and which invitation it answers
    NAME.members        lead -> everybody     the same bytes for all: every member's certificate, and so every pin

They travel by mail, which anybody may change; what is read out by telephone is a number of 32 digits:

    of a request    binds the invitation as this institution got it (with it the authority), and the key made here. The
                    lead types it: an invitation or a request that was exchanged on its way gives another number.
    of the members  binds the whole list and the node that shows it. Whoever relies on a peer types the number that the
                    peer's operator reads out: so both have one list, and a lead that gives a hospital another key for
                    a server than the server has is found out (docs/decisions/invitation.md).

Whoever made two lists with one number would have to search for a collision of 128 bits, each trial as dear as one
scrypt of 32 MiB. Files are TOML, bounded, and read strictly.
"""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from parley.federation.errors import FieldError
from parley.federation.fields import Fields, Plain
from parley.federation.files import file_bytes, toml_table
from parley.federation.names import NodeName, Role
from parley.federation.people import words
from parley.federation.toml_text import toml_text
from parley.node.authority import federation_of, load_request, request_fingerprint
from parley.node.credentials import certificate_fingerprint, check_authority, check_usage, load_certificate, name_in
from parley.node.node_file import Address
from parley.node.pins import key_of, key_text
from parley.privacy.canonical import canonical_json, digest_of

MOST_BYTES = 1 << 20
MOST_MEMBERS = 400
MOST_PEM = 1 << 14
KINDS = {"invitation": "invitation 1", "request": "request 1", "members": "members 1"}
ADDRESSES = {Role.party: (), Role.aggregator: ("share", "control", "peer"), Role.coordinator: ("parties",)}
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
DIGEST = re.compile(r"[0-9a-f]{64}")
SCRYPT: dict[str, int] = {"n": 1 << 15, "r": 8, "p": 1, "maxmem": 1 << 26, "dklen": 16}
"""32 MiB and a tenth of a second for each trial."""


class InvitationError(FieldError):
    """A field of such a file that does not fit."""

    document = "the file"


def number(what: str, body: Mapping[str, Any]) -> str:
    """What two people compare by telephone: 32 digits in groups of four."""
    digits = hashlib.scrypt(canonical_json(dict(body)).encode(), salt=f"parley {what} 1".encode(), **SCRYPT).hex()
    return ":".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def same_number(one: str, other: str) -> bool:
    """Colons, spaces, hyphens and letter case aside; all 32 digits count."""
    plain = ["".join(each for each in text.lower() if each not in ": -\t\r\n").encode() for text in (one, other)]
    return len(plain[1]) == 2 * SCRYPT["dklen"] and hmac.compare_digest(*plain)


@dataclass(frozen=True)
class Member:
    """Who takes part, and where others dial it."""

    role: Role
    name: str
    organisation: str
    """Who answers for it in law; empty where nobody has said yet."""
    addresses: Mapping[str, Address]
    """By what it is for: an aggregator's share, control and (of B) peer; a coordinator's parties."""

    def as_json(self) -> dict[str, Any]:
        addresses = {kind: str(address) for kind, address in self.addresses.items()}
        body: dict[str, Any] = {"role": self.role.value, "name": self.name, "organisation": self.organisation}
        return {name: value for name, value in (body | {"addresses": addresses}).items() if value}


@dataclass(frozen=True)
class Invitation:
    """To one institution, by name and role."""

    node: NodeName
    authority: bytes
    """Its certificate, PEM."""
    members: tuple[Member, ...]
    study: Plain
    """As study.toml has it, without [data]: for the people there, and for what their files begin with."""
    noise: Plain
    """What the run that was planned asks of the servers: cover, precision, capacity."""

    @property
    def parties(self) -> list[Member]:
        return [each for each in self.members if each.role is Role.party]

    @property
    def aggregators(self) -> list[Member]:
        """A, then B."""
        return [each for each in self.members if each.role is Role.aggregator]

    @property
    def coordinator(self) -> Member:
        return next(each for each in self.members if each.role is Role.coordinator)

    @property
    def own(self) -> Member:
        return next(each for each in self.members if (each.role, each.name) == (self.node.role, self.node.name))

    @cached_property
    def root(self) -> x509.Certificate:
        return load_certificate(self.authority, "authority")

    @property
    def digest(self) -> str:
        return digest_of(self.as_json())

    def as_json(self) -> dict[str, Any]:
        return {
            "parley": KINDS["invitation"],
            "federation": self.node.federation,
            "role": self.node.role.value,
            "name": self.node.name,
            "authority": self.authority.decode().strip(),
            "members": [each.as_json() for each in self.members],
            "noise": self.noise.body,
            "study": self.study.body,
        }

    def text(self) -> str:
        return f"# An invitation to {self.node}. `parley join` takes it; nothing in it is secret.\n\n" + toml_text(
            self.as_json()
        )

    @classmethod
    def parse(cls, data: bytes) -> Self:
        fields = _fields(data, "invitation")
        node = NodeName(fields.label("federation"), fields.choice("role", tuple(Role)), fields.label("name"))
        authority = _certificate(fields, "authority")
        made = cls(
            node, _pem(authority), members_from(fields.tables("members")), fields.free("study"), fields.free("noise")
        )
        fields.finish()
        if federation_of(authority) != node.federation:
            raise fields.refuse("authority", f"is not that of federation {node.federation}: ask for the file again")
        if (node.role, node.name) not in {(each.role, each.name) for each in made.members}:
            raise fields.refuse("name", f"is {node.name}, who is not among the members: ask for the file again")
        return made


@dataclass(frozen=True)
class Request:
    """What an institution answers."""

    invitation: str
    """The digest of the one that it answers."""
    organisation: str
    request: bytes
    """For a certificate, PEM."""

    @cached_property
    def parsed(self) -> tuple[x509.CertificateSigningRequest, NodeName]:
        return load_request(self.request)

    @property
    def name(self) -> NodeName:
        return self.parsed[1]

    @property
    def fingerprint(self) -> str:
        return request_fingerprint(self.parsed[0])

    @property
    def pin(self) -> bytes:
        return key_of(self.parsed[0].public_key())

    @cached_property
    def number(self) -> str:
        body = {"invitation": self.invitation, "organisation": self.organisation, "request": self.fingerprint}
        return number("request", body)

    def as_json(self) -> dict[str, Any]:
        return {
            "parley": KINDS["request"],
            "invitation": self.invitation,
            "organisation": self.organisation,
            "request": self.request.decode().strip(),
        }

    def text(self) -> str:
        return f"# {self.name} asks to be a member: for `parley accept`, at the lead.\n\n" + toml_text(self.as_json())

    @classmethod
    def parse(cls, data: bytes) -> Self:
        fields = _fields(data, "request")
        invitation = fields.text("invitation")
        if not DIGEST.fullmatch(invitation):
            raise fields.refuse("invitation", "is no digest: have the request made again by `parley join`")
        organisation = "" if fields.empty_text("organisation") else words(fields, "organisation")
        made = cls(invitation, organisation, _several(fields, "request").encode() + b"\n")
        fields.finish()
        _ = made.parsed, made.pin
        return made


@dataclass(frozen=True)
class Admitted:
    """One member with its certificate."""

    node: NodeName
    organisation: str
    certificate: bytes
    """PEM."""

    @cached_property
    def parsed(self) -> x509.Certificate:
        return load_certificate(self.certificate)

    @property
    def pin(self) -> bytes:
        return key_of(self.parsed.public_key())

    def as_json(self) -> dict[str, Any]:
        body = {"role": self.node.role.value, "name": self.node.name, "organisation": self.organisation}
        return {
            **{name: value for name, value in body.items() if value},
            "pin": key_text(self.pin),
            "certificate": self.certificate.decode().strip(),
        }


@dataclass(frozen=True)
class Members:
    """All of them, with the keys that each of them has."""

    federation: str
    authority: bytes
    admitted: tuple[Admitted, ...]

    def number_of(self, node: NodeName) -> str:
        """What that node's operator reads out; no two nodes show the same."""
        return number("members", {"members": digest_of(self.as_json()), "node": node.uri})

    def of(self, node: NodeName) -> Admitted | None:
        return next((each for each in self.admitted if each.node == node), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "parley": KINDS["members"],
            "federation": self.federation,
            "authority": self.authority.decode().strip(),
            "members": [each.as_json() for each in self.admitted],
        }

    def text(self) -> str:
        return f"# The members of {self.federation}: `parley join` at each of them takes this file.\n\n" + toml_text(
            self.as_json()
        )

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Every certificate is the authority's, for the name and the role beside it; no two members have one key."""
        fields = _fields(data, "members")
        federation, authority = fields.label("federation"), _certificate(fields, "authority")
        tables = _counted(fields.tables("members"), fields)
        made = cls(federation, _pem(authority), tuple(_admitted(each, federation, authority) for each in tables))
        fields.finish()
        if len({each.node for each in made.admitted}) < len(made.admitted):
            raise fields.refuse("members", "has a member twice: ask for the file again")
        if len({each.pin for each in made.admitted}) < len(made.admitted):
            raise fields.refuse("members", "has one key for two members: ask for the file again")
        return made


def _admitted(fields: Fields, federation: str, authority: x509.Certificate) -> Admitted:
    node = NodeName(federation, fields.choice("role", tuple(Role)), fields.label("name"))
    organisation = words(fields, "organisation") if fields.has("organisation") else ""
    certificate = _certificate(fields, "certificate")
    made = Admitted(node, organisation, _pem(certificate))
    if fields.text("pin") != key_text(made.pin):
        raise fields.refuse("pin", "is not that of the certificate: ask for the file again")
    fields.finish()
    check_authority(certificate, authority)
    if name_in(certificate) != node:
        raise fields.refuse("certificate", f"is that of {name_in(certificate)}: ask for the file again")
    check_usage(certificate, node)
    return made


def members_from(tables: list[Fields]) -> tuple[Member, ...]:
    """Of an invitation, or of the lead's federation.toml."""
    if not tables:
        raise InvitationError("members", "is empty: name those who take part")
    tables = _counted(tables, tables[0])
    made = tuple(_member(each) for each in tables)
    names = [each.name for each in made]
    if len(set(names)) < len(names):
        raise InvitationError("members", "has a name twice: give each node its own")
    count = {role: sum(each.role is role for each in made) for role in Role}
    if (count[Role.aggregator], count[Role.coordinator]) != (2, 1) or count[Role.party] < 2:
        raise InvitationError("members", "are not two aggregators, one coordinator and at least two parties")
    first, second = (each for each in made if each.role is Role.aggregator)
    if "peer" in first.addresses or "peer" not in second.addresses:
        raise InvitationError("members", "the second aggregator is B and has the address `peer`, the first has none")
    return made


def _counted(tables: list[Fields], fields: Fields) -> list[Fields]:
    if len(tables) > MOST_MEMBERS:
        raise fields.refuse("members", f"are {len(tables):,}: at most {MOST_MEMBERS} can be")
    return tables


def _member(fields: Fields) -> Member:
    role, name = fields.choice("role", tuple(Role)), fields.label("name")
    organisation = words(fields, "organisation") if fields.has("organisation") else ""
    addresses: dict[str, Address] = {}
    if ADDRESSES[role]:
        table = fields.table("addresses")
        for kind in ADDRESSES[role]:
            if kind != "peer" or table.has("peer"):
                addresses[kind] = address_of(table, kind)
        table.finish()
    fields.finish()
    return Member(role, name, organisation, addresses)


def address_of(fields: Fields, name: str) -> Address:
    """A host of letters, digits, dots and hyphens, or an address of IPv4 or IPv6; and a port."""
    text = fields.text(name)
    try:
        address = Address.parse(text)
        if HOST.fullmatch(address.host) is None:
            ipaddress.IPv6Address(address.host)
        if not address.port:
            raise ValueError("no port")
    except ValueError:
        raise fields.refuse(name, f"is {text[:80]!r}: give host:port") from None
    return address


def kind_of(data: bytes) -> str:
    """Which of the three files it is."""
    body = toml_table(data, lambda what: InvitationError("", what))
    said = body.get("parley")
    for kind, head in KINDS.items():
        if said == head:
            return kind
    raise InvitationError("parley", f'does not say {" or ".join(KINDS)}: give a file that `parley invite` or '
                          "`parley accept` wrote, of this version")  # fmt: skip


def read(path: Path) -> bytes:
    """A file of the three, bounded before it is looked at."""
    return file_bytes(path, lambda what: InvitationError(path.name, what), most_bytes=MOST_BYTES)


def _fields(data: bytes, kind: str) -> Fields:
    if (found := kind_of(data)) != kind:
        raise InvitationError("parley", f"is {found}, and {kind} was due: give the right file")
    fields = Fields(toml_table(data, lambda what: InvitationError("", what)), "", InvitationError)
    fields.text("parley")
    return fields


def _several(fields: Fields, name: str) -> str:
    text = fields.several_lines(name)
    if len(text) > MOST_PEM:
        raise fields.refuse(name, f"has {len(text):,} characters: that is no certificate")
    return text


def _certificate(fields: Fields, name: str) -> x509.Certificate:
    found = load_certificate(_several(fields, name).encode(), name)
    certificate_fingerprint(found)
    return found


def _pem(certificate: x509.Certificate) -> bytes:
    """One spelling of it, whatever stood around it."""
    return certificate.public_bytes(serialization.Encoding.PEM)
