"""`parley accept`: an institution's request, by the number that its operator reads out.

parley accept heart hospital-a.request
parley accept heart *.request --number hospital-a=3f1a:… --number north=77d0:…
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.commands.ca import KEY, Passphrase
from parley.cli.console import CommandError, ask, emit_json
from parley.cli.options import Json
from parley.cli.passphrase import entered
from parley.federation.names import NodeName


def accept(
    study: Annotated[Path, typer.Argument(help="The folder that `parley init` wrote.", metavar="STUDY")],
    requests: Annotated[list[Path], typer.Argument(help="Requests, as institutions sent them.", metavar="REQUEST")],
    number: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="As its operator reads it out; asked for if left out."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="A name that was accepted has lost its key: take another.")
    ] = False,
    passphrase_file: Passphrase = None,
    json_output: Json = False,
) -> None:
    """Sign requests whose numbers you type as you hear them; when all have come, write the list of members.

    Call each institution on a number that you know. Another number than the request's means that the invitation or the
    request was exchanged on its way: nothing is signed. A request that was accepted before is not asked for again.

    Example: parley accept heart hospital-a.request. Next: send the list of members to everybody, for parley join
    """
    from parley.node import membership
    from parley.node.authority import Authority
    from parley.node.invitation import Request, read

    numbers = numbers_given(number)
    found = [Request.parse(read(path)) for path in requests]
    authority = Authority.load(study / membership.AUTHORITY, entered(passphrase_file, KEY))

    def typed(node: NodeName) -> str:
        return numbers.get(node.name) or ask(
            f"number that the operator of {node.role} {node.name} reads out", f"--number {node.name}=NUMBER"
        )

    done = []
    for request in found:
        fresh = membership.accept(study, request, authority, typed, replace)
        done.append({"node": request.name.uri, "accepted": fresh})
        if not json_output:
            who = f", {request.organisation}" if request.organisation else ""
            print(f"{'accepted' if fresh else 'accepted before'}  {request.name}{who}")
    lacking = membership.missing(study)
    missing = [each.name for each in lacking]
    path = None if missing else membership.write_members(study)
    if json_output:
        emit_json({"accepted": done, "missing": missing, "members": str(path) if path else None})
    elif path is None:
        print(f"missing: {', '.join(missing)}")
        for each, why in lacking.items():
            if why != membership.NOT_YET:
                print(f"         {each.name} {why}")
    else:
        print(f"next: send {path} to everybody; there `parley join {path.name} NODE` takes it")


def numbers_given(given: list[str] | None) -> dict[str, str]:
    """Of --number."""
    found: dict[str, str] = {}
    for each in given or []:
        name, equals, text = each.partition("=")
        if not equals or not text.strip():
            raise CommandError(f"--number is {each[:80]!r}: give NAME=NUMBER, as NAME's operator reads it out")
        found[name] = text
    return found
