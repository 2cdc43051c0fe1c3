"""`parley pin`: whose keys this node trusts. Nothing else makes it believe that a peer is who it says.

parley pin add aggregator/north 02:3f1a:… --node hospital-a    # as `parley node show` prints it there, read out
parley pin accept rotation.json --node hospital-a              # the file of its `parley node rotate`; asks for the pin
parley pin list hospital-a
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.commands.node import asked_for, interactive
from parley.cli.console import emit_json
from parley.cli.options import AtNode, Json, OfNode, OldFolder, identity_folder
from parley.federation.errors import PinError
from parley.federation.names import NodeName
from parley.node import trust
from parley.node.credentials import NodeFolder, read_file
from parley.node.pins import Entry, key_text, parse_key, read_entries
from parley.node.succession import Succession

app = typer.Typer(help="Choose whose keys a node trusts.", no_args_is_help=True)
Peer = Annotated[str, typer.Argument(help="ROLE/NAME, or parley://FEDERATION/ROLE/NAME.", metavar="PEER")]
Key = Annotated[
    str | None, typer.Argument(help="As `parley node show` prints it there; asked for if left out.", metavar="PIN")
]


@app.command()
def add(
    peer: Peer,
    pin: Key = None,
    replace: Annotated[bool, typer.Option("--replace", help="Its old key is lost or stolen.")] = False,
    node: AtNode = None,
    folder: OldFolder = None,
    json_output: Json = False,
) -> None:
    """Trust a peer's key, as its operator reads it out to you; never as it comes with a file or a message.

    Example: parley pin add aggregator/north 02:3f1a:… --node hospital-a
    """
    place = NodeFolder(identity_folder(node, folder))
    name = _named(place, peer)
    _shown(trust.add(place, name, _key(name, pin), replace), json_output)


@app.command()
def accept(
    rotation: Annotated[
        Path, typer.Argument(help="The file that the peer's `parley node rotate` wrote.", metavar="FILE")
    ],
    pin: Annotated[str | None, typer.Option(help="Its new pin, as its operator reads it out; else asked for.")] = None,
    now: Annotated[bool, typer.Option("--now", help="Refuse the old key at once, not in seven days.")] = False,
    node: AtNode = None,
    folder: OldFolder = None,
    json_output: Json = False,
) -> None:
    """Follow a peer to its new key: signed by the old one, and the same that its operator reads out.

    Example: parley pin accept rotation.json --node hospital-a
    """
    succession = Succession.parse(read_file(rotation))
    succession.verify()
    key = _key(succession.node, pin)
    overlap = trust.NO_OVERLAP if now else trust.OVERLAP
    _shown(trust.accept(NodeFolder(identity_folder(node, folder)), succession, key, overlap), json_output)


@app.command()
def remove(peer: Peer, node: AtNode = None, folder: OldFolder = None, json_output: Json = False) -> None:
    """Stop trusting a peer, from its next call on.

    Example: parley pin remove party/hospital-e --node north
    """
    place = NodeFolder(identity_folder(node, folder))
    name = _named(place, peer)
    trust.remove(place, name)
    if json_output:
        emit_json({"removed": name.uri})
    else:
        print(f"removed  {name}")


@app.command(name="list")
def list_(node: OfNode = None, folder: OldFolder = None, json_output: Json = False) -> None:
    """List every pinned peer, to compare with what its operator reads out.

    Example: parley pin list hospital-a
    """
    entries = read_entries(NodeFolder(identity_folder(node, folder)).pin_file)
    if json_output:
        emit_json({"pins": [_body(entry) for entry in entries]})
        return
    for entry in entries:
        _print(entry)
    if not entries:
        print("nobody is pinned: `parley pin add ROLE/NAME`")


def _named(folder: NodeFolder, text: str) -> NodeName:
    return trust.name_of(text, "" if "://" in text else folder.load().name.federation)


def _key(name: NodeName, given: str | None) -> bytes:
    if given is None:
        if not interactive():
            raise PinError(f"the pin of {name} is missing: give it as `parley node show` prints it there")
        given = asked_for(name)
    return parse_key(given)


def _body(entry: Entry) -> dict[str, Any]:
    former = entry.former if entry.former is not None and entry.former.good else None
    until = former.until.isoformat() if former is not None and former.until is not None else None
    return {
        "node": entry.node.uri,
        "pin": key_text(entry.key),
        "former": key_text(former.key) if former is not None else None,
        "until": until,
    }


def _shown(entry: Entry, json_output: bool) -> None:
    if json_output:
        emit_json(_body(entry))
    else:
        _print(entry)


def _print(entry: Entry) -> None:
    print(f"{entry.node}\n  pin     {key_text(entry.key)}")
    if entry.former is not None and entry.former.good and entry.former.until is not None:
        print(f"  former  {key_text(entry.former.key)}, taken until {entry.former.until:%Y-%m-%d %H:%M} UTC")
