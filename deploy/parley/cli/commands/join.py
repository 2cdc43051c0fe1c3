"""`parley join`: become a member of a federation, by the files that its lead sends.

parley join hospital-a.invitation --data records.csv       # makes the node, and a request for the lead
parley join heart.members hospital-a                       # once everybody was accepted: certificate and pins
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.commands.accept import numbers_given
from parley.cli.console import CommandError, ask, emit_json
from parley.cli.options import Json
from parley.federation.names import NodeName, Role

if TYPE_CHECKING:
    from parley.node.invitation import Invitation

Numbers = Annotated[
    list[str] | None,
    typer.Option("--number", metavar="NAME=NUMBER", help="As NAME's operator reads it out; asked for if left out."),
]


def join(
    file: Annotated[Path, typer.Argument(help="An invitation, or a list of members.", metavar="FILE")],
    node: Annotated[
        Path | None, typer.Argument(help="The node's folder; for an invitation its name, unless given.", metavar="NODE")
    ] = None,
    data: Annotated[list[Path] | None, typer.Option(help="A party's file of records; may be repeated.")] = None,
    organisation: Annotated[str | None, typer.Option(help="Who answers for this node in law.")] = None,
    containers: Annotated[
        bool, typer.Option("--containers", help="Also NODE/compose.yaml, which runs the node in a container.")
    ] = False,
    number: Numbers = None,
    json_output: Json = False,
) -> None:
    """Take an invitation: make this node's folder, its key, and a request for the lead. Then take the list of members.

    What is missing is asked for: the file of records, and who you are. The number that is printed goes to the lead by
    telephone, never with the file. With the list of members, a party types the numbers that the operators of both
    aggregators read out, and an aggregator the other one's: another number, and nothing is installed.

    Example: parley join hospital-a.invitation --data records.csv. Next: send hospital-a/hospital-a.request to the lead
    """
    from parley.node.invitation import kind_of, read

    content = read(file)
    kind = kind_of(content)
    if kind == "invitation":
        _begin(content, node, data or [], organisation, containers, json_output)
    elif kind == "members":
        if node is None:
            raise CommandError(f"say which node joins: parley join {file} NODE")
        if data or organisation or containers:
            raise CommandError("--data, --organisation and --containers go with an invitation, and this is the list")
        _finish(content, node, number, json_output)
    else:
        raise CommandError(f"{file} is a request, which goes to the lead: parley accept STUDY {file}")


def _begin(
    content: bytes, node: Path | None, data: list[Path], organisation: str | None, containers: bool, json_output: bool
) -> None:
    from parley.federation.fields import Fields
    from parley.federation.people import words
    from parley.node import newcomer
    from parley.node.invitation import Invitation, InvitationError

    invitation = Invitation.parse(content)
    folder = node or Path(invitation.node.name)
    if folder.exists():
        raise CommandError(f"{folder} is there already, and nothing was written: give another folder as NODE")
    if not json_output:
        _show(invitation)
    role = invitation.node.role
    if role is not Role.party and data:
        raise CommandError(f"--data is a party's, and this invitation is {role.with_article}'s")
    if role is Role.party and not data:
        data = [Path(ask("file of records", "--data FILE"))]
    for path in data:
        if not path.is_file():
            raise CommandError(f"--data {path} is no file: give the one with this institution's records")
    if organisation is None:
        organisation = invitation.own.organisation or ask(
            "who answers for this node in law", '--organisation "St. Anna Hospital gGmbH"'
        )
    if invitation.own.organisation not in ("", organisation):
        raise CommandError(
            f"the invitation says {invitation.own.organisation!r}, and every policy is written by it: ask the lead for "
            "another invitation, or leave --organisation out"
        )
    organisation = words(Fields({"organisation": organisation}, "", InvitationError), "organisation")
    files = [folder.absolute() / "data" / each.name if containers else each.absolute() for each in data]
    texts = {"study.toml": _study_text(invitation)}
    if role is Role.party:
        texts["schema.toml"] = _schema_text(invitation, data[0])
    if containers:
        from parley.cli.containers import compose_text

        texts["compose.yaml"] = compose_text(invitation, folder, data)
    begun = newcomer.begin(invitation, folder, organisation, files, texts, everywhere=containers)
    if containers:
        from parley.cli.containers import prepare

        prepare(folder, role)
    if json_output:
        emit_json({"node": str(folder), "request": str(begun.path), "number": begun.request.number})
        return
    print(f"wrote     {folder}: look through node.toml, policy.toml" + (", schema.toml" if role is Role.party else ""))
    if role is Role.party:
        print(f"limits    {newcomer.limits_of(invitation)}: yours to change, in policy.toml and node.toml")
    print(f"request   {begun.path}: send it to the lead")
    print(f"number    {begun.request.number}")
    print("next      read the number out when the lead calls; then parley join FILE.members " + str(folder))


def _show(invitation: "Invitation") -> None:
    """Who takes part, by the lead's word."""
    from parley.node.newcomer import described

    print(f"invited   {invitation.node.role} {invitation.node.name}, in federation {invitation.node.federation}")
    for member in invitation.members:
        print(f"          {described(member)}")


def _study_text(invitation: "Invitation") -> str:
    from parley.federation.toml_text import toml_text

    head = "# The study that this node was invited to, for people: a run is what its manifest says. docs/study.md\n\n"
    return head + toml_text(invitation.study.body) + "\n"


def _schema_text(invitation: "Invitation", records: Path) -> str:
    """To begin with: the columns as the study has them, which this institution compares with what its records are."""
    from parley.federation.toml_text import toml_text
    from parley.learning.holding import held, layout_by_name
    from parley.learning.schema import schema_from_json
    from parley.node.newcomer import columns_of, units_of

    columns = schema_from_json(columns_of(invitation))
    holding = held(columns, layout_by_name(records), units_of(invitation))
    head = (
        "# What this institution's records are, in its own words: docs/schema.md. It begins with the study's columns;\n"
        "# bounds, words and units are this institution's to confirm or to change. `parley schema check` compares.\n\n"
    )
    return head + toml_text(holding.as_json()) + "\n"


def _finish(content: bytes, folder: Path, number: list[str] | None, json_output: bool) -> None:
    from parley.node import newcomer
    from parley.node.invitation import Members

    members, numbers = Members.parse(content), numbers_given(number)
    invitation = newcomer.check(folder, members)
    own = members.number_of(invitation.node)
    if not json_output:
        for each in members.admitted:
            print(f"member    {each.node.role} {each.node.name}: {each.organisation or 'organisation not said'}")
        if invitation.node.role is Role.aggregator:
            print(f"number    {own}", flush=True)
            print("          read it out to the operator of every party and of the other aggregator, when they ask")

    def typed(peer: NodeName) -> str:
        given = numbers.get(peer.name)
        return given or ask(f"number that the operator of {peer.role} {peer.name} reads out", f"--number {peer.name}=…")

    newcomer.finish(folder, members, typed)
    pinned = [each.node.uri for each in newcomer.peers_in(invitation, members)]
    if json_output:
        emit_json({"node": invitation.node.uri, "number": own, "pinned": pinned})
        return
    print(f"joined    {invitation.node}: certificate installed, {len(pinned)} peers pinned")
    first = f"parley schema check {folder}, then " if invitation.node.role is Role.party else ""
    print(f"next      {first}parley {invitation.node.role} run {folder}")
