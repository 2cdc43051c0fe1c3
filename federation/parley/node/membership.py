"""The lead's side of invitations: who is invited to a study, whose request was accepted, and the list that comes of it.

STUDY/study.toml             what people decide about the run
STUDY/federation.toml        who takes part and where others dial it
STUDY/authority/             the federation's certificate authority
STUDY/invitations/NAME.invitation
STUDY/accepted/NAME.toml     one accepted member: its request, and its certificate
STUDY/FEDERATION.members     once all have been accepted: for every member the same bytes
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.federation.errors import CertificateError, FingerprintError, WrongIdentityError
from parley.federation.fields import Fields, Plain
from parley.federation.files import toml_file
from parley.federation.names import NodeName
from parley.federation.toml_text import toml_text
from parley.node import revocation
from parley.node.authority import NODE_LIFETIME, PEM, Authority, load_request
from parley.node.credentials import load_certificate, read_file
from parley.node.invitation import (
    Admitted,
    Invitation,
    InvitationError,
    Member,
    Members,
    Request,
    members_from,
    read,
    same_number,
)
from parley.privacy.durable import replace_durably

FEDERATION_FILE, STUDY_FILE = "federation.toml", "study.toml"
AUTHORITY, INVITATIONS, ACCEPTED = "authority", "invitations", "accepted"
Typed = Callable[[NodeName], str]
REVOKED = "was revoked since: `parley accept --replace` with its new request"
EXPIRED = "has a certificate that expired: `parley accept` with its request once more, by the same number"
NOT_YET = "is missing: accept its request first"


@dataclass(frozen=True)
class Plan:
    """federation.toml: who takes part."""

    federation: str
    members: tuple[Member, ...]

    def named(self, name: str) -> NodeName:
        for each in self.members:
            if each.name == name:
                return NodeName(self.federation, each.role, name)
        known = ", ".join(each.name for each in self.members)
        raise InvitationError(FEDERATION_FILE, f"{name[:80]!r} is not among the members: invite one of {known}")

    def text(self) -> str:
        body = {"federation": self.federation, "members": [each.as_json() for each in self.members]}
        return (
            "# Who takes part, and where others dial it: `parley invite` puts it into every invitation. The first\n"
            "# aggregator dials the second.\n\n" + toml_text(body) + "\n"
        )

    @classmethod
    def read(cls, folder: Path) -> "Plan":
        path = folder / FEDERATION_FILE
        body = toml_file(path, lambda what: InvitationError(str(path), what), "see `parley init STUDY --parties`")
        fields = Fields(body, "", InvitationError)
        made = cls(fields.label("federation"), members_from(fields.tables("members")))
        fields.finish()
        return made


def invite(folder: Path, node: NodeName, plan: Plan, study: dict[str, Any], noise: dict[str, Any], out: Path) -> None:
    """Write it where it is to be sent from, and keep the lead's own copy: requests are compared with that one."""
    authority = load_certificate(read_file(folder / AUTHORITY / "authority.crt"), "authority.crt")
    made = Invitation(node, authority.public_bytes(PEM), plan.members, Plain.of(study), Plain.of(noise))
    text = made.text()
    if Invitation.parse(text.encode()).digest != made.digest:
        raise InvitationError("study", "does not read back as it was written: this is a defect, report it")
    kept = invitation_path(folder, node)
    kept.parent.mkdir(exist_ok=True, mode=0o700)
    replace_durably(kept, text)
    if out.absolute() != kept.absolute():
        replace_durably(out, text)


def invitation_path(folder: Path, node: NodeName) -> Path:
    return folder / INVITATIONS / f"{node.name}.invitation"


def accept(
    folder: Path,
    request: Request,
    authority: Authority,
    typed: Typed,
    replacing: bool = False,
    lifetime: dt.timedelta = NODE_LIFETIME,
) -> bool:
    """Sign a request whose number was typed as its operator read it out. False where it had been accepted before.

    Of a name that was accepted another key is taken only where `replacing` says that it is lost: whoever sends an old
    request again gets nothing new, and nobody takes another one's place. Only where the certificate has ended, or soon
    ends, is the same request signed again, by the same number: a list may be due long after the first was accepted.
    """
    plan, node = Plan.read(folder), request.name
    if plan.named(node.name) != node:
        raise WrongIdentityError(f"the request is for {node}, and {node.name} was invited as {plan.named(node.name)}")
    path = invitation_path(folder, node)
    if not path.exists():
        raise CertificateError(f"{node.name} was not invited: `parley invite {folder} {node.name}`")
    if Invitation.parse(read(path)).digest != request.invitation:
        raise FingerprintError(
            f"the request of {node.name} answers another invitation than {path}: if you have written a new one since, "
            "have them join again by that; if not, theirs was exchanged on its way: send it again, another way"
        )
    held = accepted(folder, node)
    same = held is not None and held[0].fingerprint == request.fingerprint
    if held is not None and same:
        if held[0].pin in _revoked(folder):
            raise CertificateError(f"{node.name} {REVOKED}")
        if not _ends_soon(held[1]):
            return False
    if held is not None and not same and not replacing:
        raise CertificateError(
            f"{node.name} was accepted before, with another key: if its operator says by telephone that the old one is "
            "lost, repeat this with --replace; if not, somebody else has sent this"
        )
    if not same_number(typed(node), request.number):
        raise FingerprintError(
            f"this is not the number of this request of {node.name}: have its operator read it again. If it still "
            "differs, the invitation or the request was exchanged on its way: nothing was signed"
        )
    revocation.require_unrevoked(folder / AUTHORITY, authority.certificate, load_request(request.request)[0])
    certificate = authority.approve(request.request, request.fingerprint, lifetime)
    authority.note(folder / AUTHORITY, certificate, node)
    body = {"certificate": certificate.public_bytes(PEM).decode(), **request.as_json()}
    kept = _accepted_path(folder, node)
    kept.parent.mkdir(exist_ok=True, mode=0o700)
    replace_durably(kept, toml_text(body) + "\n")
    return True


def accepted(folder: Path, node: NodeName) -> tuple[Request, bytes] | None:
    """A member's request and its certificate, if it was accepted."""
    path = _accepted_path(folder, node)
    if not path.exists():
        return None
    body = toml_file(path, lambda what: InvitationError(path.name, what))
    certificate = body.pop("certificate", None)
    if not isinstance(certificate, str):
        raise InvitationError(path.name, "has no certificate: restore it from a backup")
    return Request.parse(toml_text(body).encode()), certificate.encode()


def missing(folder: Path) -> dict[NodeName, str]:
    """Members without a certificate that a list may have, and why, for a person."""
    plan, revoked, found = Plan.read(folder), _revoked(folder), {}
    for node in map(plan.named, _names(plan)):
        held = accepted(folder, node)
        if held is None:
            found[node] = NOT_YET
        elif held[0].pin in revoked:
            found[node] = REVOKED
        elif load_certificate(held[1]).not_valid_after_utc <= dt.datetime.now(dt.UTC):
            found[node] = EXPIRED
    return found


def _revoked(folder: Path) -> frozenset[bytes]:
    """Keys that nobody is to pin any more."""
    authority = load_certificate(read_file(folder / AUTHORITY / "authority.crt"), "authority.crt")
    held = revocation.held(folder / AUTHORITY, authority)
    return held.keys if held else frozenset()


def _ends_soon(certificate: bytes) -> bool:
    """Ended, or with less than a third of its time left."""
    found = load_certificate(certificate)
    lasts = found.not_valid_after_utc - found.not_valid_before_utc
    return found.not_valid_after_utc - dt.datetime.now(dt.UTC) < lasts / 3


def members_of(folder: Path) -> Members:
    """The list, once nobody is missing."""
    plan = Plan.read(folder)
    for node, why in missing(folder).items():
        raise CertificateError(f"{node.name} {why}")
    found = []
    for member in plan.members:
        node = plan.named(member.name)
        held = accepted(folder, node)
        assert held is not None
        found.append(Admitted(node, member.organisation or held[0].organisation, held[1]))
    authority = read_file(folder / AUTHORITY / "authority.crt")
    text = Members(plan.federation, authority, tuple(found)).text()
    return Members.parse(text.encode())


def write_members(folder: Path) -> Path:
    """For every member, the same bytes."""
    made = members_of(folder)
    path = folder / f"{made.federation}.members"
    replace_durably(path, made.text())
    return path


def _names(plan: Plan) -> list[str]:
    return [each.name for each in plan.members]


def _accepted_path(folder: Path, node: NodeName) -> Path:
    return folder / ACCEPTED / f"{node.name}.toml"
