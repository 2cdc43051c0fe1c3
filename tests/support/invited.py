"""A study to which two institutions are invited, and its members as far as a test wants them."""

from pathlib import Path
from typing import Any

from parley.federation.names import NodeName, Role
from parley.node import membership, newcomer
from parley.node.authority import Authority
from parley.node.invitation import Invitation, Member, Members, Request
from parley.node.membership import Plan
from parley.node.newcomer import Begun
from parley.node.node_file import Address

FEDERATION = "cardio"
NAMES = ("lead", "north", "south", "hospital-a", "hospital-b")
STUDY: dict[str, Any] = {
    "run": "cardio-1",
    "federation": FEDERATION,
    "model": {"kind": "logistic"},
    "algorithm": {"name": "auto"},
    "privacy": {"epsilon": 1.0, "delta": 1e-5},
    "schema": {
        "intercept": True,
        "target": {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]},
        "features": [{"kind": "number", "name": "age", "low": 20.0, "high": 90.0}],
    },
    "parties": [{"name": "hospital-a", "units": 300}, {"name": "hospital-b", "units": 200}],
}
NOISE = {"cover": "strips", "precision": "standard", "capacity": 1024}


def at(name: str, port: int) -> Address:
    return Address(f"{name}.example.org", port)


MEMBERS = (
    Member(Role.coordinator, "lead", "Heart Study Group", {"parties": at("lead", 7400)}),
    Member(Role.aggregator, "north", "North Trust", {"share": at("north", 7401), "control": at("north", 7402)}),
    Member(
        Role.aggregator,
        "south",
        "South Foundation",
        {"share": at("south", 7401), "control": at("south", 7402), "peer": at("south", 7403)},
    ),
    Member(Role.party, "hospital-a", "", {}),
    Member(Role.party, "hospital-b", "St. Bruno", {}),
)
PLAN = Plan(FEDERATION, MEMBERS)


class Invited:
    """The lead's folder, and one for each institution beside it."""

    def __init__(self, folder: Path) -> None:
        self.study, self.homes = folder / "study", folder
        self.study.mkdir()
        (self.study / membership.FEDERATION_FILE).write_text(PLAN.text())
        Authority.create(FEDERATION).save(self.study / membership.AUTHORITY, None)
        for name in NAMES:
            self.invite(name)

    @property
    def authority(self) -> Authority:
        return Authority.load(self.study / membership.AUTHORITY, None)

    def invite(self, name: str) -> None:
        node = PLAN.named(name)
        membership.invite(self.study, node, PLAN, STUDY, NOISE, membership.invitation_path(self.study, node))

    def invitation(self, name: str) -> Invitation:
        return Invitation.parse(self.invitation_file(name).read_bytes())

    def invitation_file(self, name: str) -> Path:
        return membership.invitation_path(self.study, PLAN.named(name))

    def begin(self, name: str, invitation: Invitation | None = None, at: str = "") -> Begun:
        """As the institution does it, in its own folder."""
        data = [self.homes / f"{name}.csv"] if PLAN.named(name).role is Role.party else []
        return newcomer.begin(invitation or self.invitation(name), self.homes / (at or name), f"{name} hospital", data)

    def accept(self, begun: Begun, number: str | None = None, replacing: bool = False) -> bool:
        """As the lead does it, with the number that the institution reads out."""
        request = Request.parse(begun.path.read_bytes())
        said = begun.request.number if number is None else number
        return membership.accept(self.study, request, self.authority, lambda _: said, replacing)

    def everybody(self) -> Members:
        """All have joined and were accepted."""
        for name in NAMES:
            self.accept(self.begin(name))
        return membership.members_of(self.study)

    def finish(self, name: str, members: Members, shown: Members | None = None) -> Invitation:
        """`shown` is the list on the screens of the others, if it is another one."""
        theirs = shown or members
        return newcomer.finish(self.homes / name, members, theirs.number_of)


def node(name: str) -> NodeName:
    return PLAN.named(name)
