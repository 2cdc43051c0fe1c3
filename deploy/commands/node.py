"""`parley node`: a node's identity. Its key is made here and never leaves this machine.

parley node request parley://cardio/party/hospital-a    # send request.pem, read the fingerprint out
parley node install hospital-a.pem --authority 9c2e:…   # the fingerprint that `parley ca show` shows over there
parley node rotate                                      # before it expires: a new key, no downtime
"""

import datetime as dt
from pathlib import Path
from typing import Annotated, Any

import typer
from parley.federation.credentials import (
    Identity,
    NodeFolder,
    certificate_fingerprint,
    load_certificate,
    read_file,
)
from parley.federation.errors import CertificateError
from parley.federation.names import NodeName

from deploy import nodes
from deploy.certificates import federation_of
from deploy.console import EXIT_BAD_NEWS, emit_json

app = typer.Typer(help="This node's identity and certificate.", no_args_is_help=True)
Folder = Annotated[Path, typer.Option("--folder", help="Of this node.")]
Json = Annotated[bool, typer.Option("--json", help="End standard output with one line of JSON.")]
HOME = Path("node")


@app.command()
def request(
    identity: Annotated[
        str, typer.Argument(help="parley://FEDERATION/ROLE/NAME; roles: party, aggregator, coordinator.")
    ],
    folder: Folder = HOME,
    json_output: Json = False,
) -> None:
    """Make a key and a request for a certificate."""
    _asked(nodes.request(NodeFolder(folder), NodeName.parse(identity)), json_output)


@app.command()
def rotate(folder: Folder = HOME, json_output: Json = False) -> None:
    """Make a new key and a request for the same name; the present certificate stays in use until the new one is in."""
    _asked(nodes.rotate(NodeFolder(folder)), json_output)


@app.command()
def install(
    certificate: Annotated[Path, typer.Argument(help="What `parley ca approve` wrote.")],
    authority: Annotated[str | None, typer.Option(help="Fingerprint of the authority: the first time only.")] = None,
    folder: Folder = HOME,
    json_output: Json = False,
) -> None:
    """Put an approved certificate into use; running servers pick it up by themselves."""
    _shown(nodes.install(NodeFolder(folder), read_file(certificate), authority), None, None, json_output)


@app.command()
def show(folder: Folder = HOME, json_output: Json = False) -> None:
    """Who this node is, until when, and the fingerprint of a request that waits. Exit code 1 if peers would refuse."""
    node = NodeFolder(folder)
    waiting = nodes.pending(node)
    if not node.current.is_symlink():
        if waiting is None:
            _ = node.installed  # says how to begin
        else:
            _asked(waiting, json_output)
        return
    identity = Identity.load(node.installed)
    problem = None
    try:
        identity.check()
    except CertificateError as error:
        problem = str(error)
    _shown(identity, waiting, problem, json_output)
    if problem:
        raise SystemExit(EXIT_BAD_NEWS)


def _asked(waiting: nodes.Pending, json_output: bool) -> None:
    if json_output:
        emit_json({"identity": waiting.name.uri, "request": str(waiting.path), "fingerprint": waiting.fingerprint})
    else:
        print(f"identity     {waiting.name}\nrequest      {waiting.path}\nfingerprint  {waiting.fingerprint}")
        print("next         send the request to the federation's authority, and read the fingerprint out to them")


def _shown(identity: Identity, waiting: nodes.Pending | None, problem: str | None, json_output: bool) -> None:
    authority = load_certificate(identity.authority, "authority.crt")
    days = (identity.expires - dt.datetime.now(dt.UTC)) / dt.timedelta(days=1)
    result: dict[str, Any] = {
        "identity": identity.name.uri,
        "fingerprint": identity.fingerprint,
        "expires": identity.expires.isoformat(),
        "days_left": round(days, 2),
        "authority": certificate_fingerprint(authority),
        "federation": federation_of(authority),
        "problem": problem,
        "pending_fingerprint": waiting.fingerprint if waiting else None,
    }
    if json_output:
        emit_json(result)
        return
    print(f"identity     {identity.name}\nfingerprint  {identity.fingerprint}")
    print(f"valid until  {identity.expires:%Y-%m-%d %H:%M} UTC ({days:.0f} days)")
    print(f"authority    {result['authority']} of {result['federation']}")
    if waiting:
        print(f"waiting      a request with the fingerprint {waiting.fingerprint}")
    if problem:
        print(f"problem      {problem}")
