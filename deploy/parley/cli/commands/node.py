"""`parley node`: a node's identity. Its key is made here and never leaves this machine.

parley node request parley://cardio/party/hospital-a --node hospital-a    # send request.pem, read the fingerprint out
parley node install hospital-a.pem --authority 9c2e:… --node hospital-a   # the fingerprint of `parley ca show` there
parley node renew hospital-a           # before it expires: another certificate for the same key
parley node rotate hospital-a          # a new key, which peers have to accept: `parley pin accept`
"""

import datetime as dt
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.console import EXIT_BAD_NEWS, emit_json, fail
from parley.cli.options import AtNode, Json, OfNode, OldFolder, identity_folder
from parley.cli.options import NodeFolder as Folder
from parley.cli.revoked import show_revoked
from parley.federation.errors import CertificateError
from parley.federation.names import NodeName
from parley.node import installation as nodes
from parley.node import renewal, trust
from parley.node.authority import federation_of
from parley.node.credentials import (
    AUTHORITY_FILE,
    Identity,
    NodeFolder,
    certificate_fingerprint,
    load_certificate,
    read_file,
)
from parley.node.node_file import NODE_FILE, read_node
from parley.node.pins import key_text
from parley.node.revocation import Revoked, keep

app = typer.Typer(help="Make a node's key, and request, install and renew its certificate.", no_args_is_help=True)


@app.command()
def request(
    identity: Annotated[
        str,
        typer.Argument(help="parley://FEDERATION/ROLE/NAME; roles: party, aggregator, coordinator.", metavar="NAME"),
    ],
    node: AtNode = None,
    folder: OldFolder = None,
    json_output: Json = False,
) -> None:
    """Make a key, and a request for its certificate. The key never leaves this machine.

    Next: send the request to the federation's authority, and read its fingerprint out to them.

    Example: parley node request parley://cardio/party/hospital-a --node hospital-a
    """
    _asked(nodes.request(NodeFolder(identity_folder(node, folder)), NodeName.parse(identity)), json_output)


@app.command()
def renew(
    node: OfNode = None,
    within: Annotated[
        int | None, typer.Option(min=1, help="Only if it ends within so many days: for a daily timer.")
    ] = None,
    approved: Annotated[
        Path | None, typer.Option(help="With --within: install this file of `parley ca approve` once it is there.")
    ] = None,
    folder: OldFolder = None,
    json_output: Json = False,
) -> None:
    """Request another certificate for the same key, before the present one expires.

    Peers have pinned the key, so nothing changes for them. Next: have the request approved, then parley node install.

    With --within it can be run every day. Exit code 0: it lasts longer than that, or the approved one was installed.
    Exit code 1: it ends soon, and the request waits for the authority; [notify] of node.toml is told.

    Example: parley node renew hospital-a --within 30
    """
    place = NodeFolder(identity_folder(node, folder))
    if within is None:
        if approved is not None:
            fail("--approved is for a timer: give --within as well, or use `parley node install`")
        _asked(nodes.renew(place), json_output)
        return
    found = renewal.renew_within(place, within, approved)
    if json_output:
        body = {"identity": found.identity.name.uri, "days_left": round(found.days_left, 2)}
        waiting = found.waiting.fingerprint if found.waiting else None
        emit_json({**body, "installed": found.installed, "pending_fingerprint": waiting})
    elif found.waiting is None:
        print(f"{'renewed' if found.installed else 'lasts'}  {found.identity.name}, {found.days_left:.0f} days left")
    else:
        print(f"ends soon    {found.days_left:.0f} days left")
        _asked(found.waiting, json_output)
    if found.waiting is not None:
        renewal.tell(place, found.identity)
        raise SystemExit(EXIT_BAD_NEWS)


@app.command()
def rotate(node: OfNode = None, folder: OldFolder = None, json_output: Json = False) -> None:
    """Make a new key and a request for the same name. The present key stays in use until then.

    Send rotation.json to every peer and read the new pin out to them; install the new certificate once they have run
    `parley pin accept`.

    Example: parley node rotate hospital-a
    """
    waiting = nodes.rotate(NodeFolder(identity_folder(node, folder)))
    _asked(waiting, json_output, waiting.rotation)


@app.command()
def install(
    certificate: Annotated[Path, typer.Argument(help="What `parley ca approve` wrote.", metavar="FILE")],
    authority: Annotated[str | None, typer.Option(help="Fingerprint of the authority: the first time only.")] = None,
    pin: Annotated[
        list[str] | None, typer.Option(help="ROLE/NAME=PIN of a peer, as its operator reads it out; for each peer.")
    ] = None,
    node: AtNode = None,
    folder: OldFolder = None,
    json_output: Json = False,
) -> None:
    """Put an approved certificate into use. Running servers pick it up by themselves.

    It asks for the pins of the peers that node.toml names, if it can ask and they are not pinned yet.

    Next: parley doctor NODE.

    Example: parley node install hospital-a.pem --authority 9c2e:… --node hospital-a
    """
    place = NodeFolder(identity_folder(node, folder))
    identity = nodes.install(place, read_file(certificate), authority)
    peers = _peers(place, identity)
    trust.ask(place, pin or [], peers if interactive() else [], asked_for)
    _shown(identity, None, None, json_output)
    missing = [peer for peer in peers if not place.load().pins.of(peer)]
    if not json_output:
        for peer in missing:
            where = f"--node {node}" if node is not None else f"--folder {place.path}"
            print(f"not pinned   {peer}: parley pin add {peer} PIN {where}")


def interactive() -> bool:
    return sys.stdin.isatty()


def asked_for(peer: NodeName) -> str:
    """A pin, typed in as the peer's operator reads it out."""
    answer: str = typer.prompt(f"pin of {peer}, as `parley node show` prints it there", default="", show_default=False)
    return answer


def _peers(folder: NodeFolder, identity: Identity) -> list[NodeName]:
    """Those of the node.toml beside the folder of the identity, if there is one."""
    home = folder.path.absolute().parent
    return trust.needed(read_node(home), identity.name.federation) if (home / NODE_FILE).exists() else []


@app.command()
def show(node: OfNode = None, folder: OldFolder = None, json_output: Json = False) -> None:
    """Show who this node is, until when, its pin, and the fingerprint of a request that waits.

    Exit code 1 if peers would refuse the certificate.

    Example: parley node show hospital-a
    """
    place = NodeFolder(identity_folder(node, folder))
    waiting = nodes.pending(place)
    if not place.current.is_symlink():
        if waiting is None:
            _ = place.installed  # says how to begin
        else:
            _asked(waiting, json_output)
        return
    identity = Identity.load(place.installed)
    problem = None
    try:
        identity.check()
    except CertificateError as error:
        problem = str(error)
    _shown(identity, waiting, problem, json_output)
    if problem:
        raise SystemExit(EXIT_BAD_NEWS)


@app.command()
def revoked(
    file: Annotated[Path | None, typer.Argument(help="The list, of `parley ca revoke`.", metavar="FILE")] = None,
    node: AtNode = None,
    folder: OldFolder = None,
    json_output: Json = False,
) -> None:
    """Take the authority's list of revoked certificates, or show the one that this node has.

    A coordinator passes it on to all others with the next run or round; an older list is refused. Running nodes follow
    it within a second, and end what stands with a revoked node.

    Example: parley node revoked revoked.crl --node lead
    """
    place = NodeFolder(identity_folder(node, folder))
    if file is not None:
        authority = load_certificate(read_file(place.installed / AUTHORITY_FILE), AUTHORITY_FILE)
        found: Revoked | None = keep(place.path, read_file(file), authority, replacing=True)
    else:
        found = place.revoked()
    if found is None:
        print("list         none: the authority has revoked nothing that this node was told of")
    else:
        show_revoked(found, json_output)


def _asked(waiting: nodes.Pending, json_output: bool, rotation: Path | None = None) -> None:
    if json_output:
        body = {"identity": waiting.name.uri, "request": str(waiting.path), "fingerprint": waiting.fingerprint}
        emit_json({**body, "pin": key_text(waiting.pin), "rotation": str(rotation) if rotation else None})
        return
    print(f"identity     {waiting.name}\nrequest      {waiting.path}\nfingerprint  {waiting.fingerprint}")
    print(f"pin          {key_text(waiting.pin)}")
    print("next         send the request to the federation's authority, and read the fingerprint out to them")
    print("             read the pin out to the operator of every peer, for their `parley pin`")
    if rotation is not None:
        print(f"             send them {rotation} too; install once they have accepted it")


def _shown(identity: Identity, waiting: nodes.Pending | None, problem: str | None, json_output: bool) -> None:
    authority = load_certificate(identity.authority, "authority.crt")
    days = (identity.expires - dt.datetime.now(dt.UTC)) / dt.timedelta(days=1)
    result: dict[str, Any] = {
        "identity": identity.name.uri,
        "fingerprint": identity.fingerprint,
        "pin": key_text(identity.pin),
        "expires": identity.expires.isoformat(),
        "days_left": round(days, 2),
        "authority": certificate_fingerprint(authority),
        "federation": federation_of(authority),
        "problem": problem,
        "pending_fingerprint": waiting.fingerprint if waiting else None,
        "pending_pin": key_text(waiting.pin) if waiting else None,
    }
    if json_output:
        emit_json(result)
        return
    print(f"identity     {identity.name}\npin          {key_text(identity.pin)}")
    print(f"fingerprint  {identity.fingerprint}")
    print(f"valid until  {identity.expires:%Y-%m-%d %H:%M} UTC ({days:.0f} days)")
    print(f"authority    {result['authority']} of {result['federation']}")
    if waiting:
        print(f"waiting      a request with the fingerprint {waiting.fingerprint}")
        if waiting.pin != identity.pin:
            print(f"new pin      {key_text(waiting.pin)}, for peers' `parley pin accept`")
    if problem:
        print(f"problem      {problem}")


@app.command()
def notify(node: Folder, json_output: Json = False) -> None:
    """Try [notify] of node.toml: a message that says that nothing waits, by its address or its command.

    Exit code 1 if it was not taken within ten seconds.

    Example: parley node notify hospital-a
    """
    from parley.node import bell

    here = read_node(node)
    if here.notify is None:
        fail(f"{here.folder}/node.toml has no [notify]: with it a node tells you when something waits for you")
    name = here.identity.load().name
    waiting = [{"what": bell.TRY, "text": bell.SENTENCES[bell.TRY]}]
    told = bell.tell(here.notify, bell.message(name, waiting))
    by = "the address" if here.notify.url else here.notify.command[0]
    if json_output:
        emit_json({"told": told})
    else:
        print(f"{by} took the message" if told else f"{by} did not take the message: correct [notify] of node.toml")
    if not told:
        raise SystemExit(EXIT_BAD_NEWS)
