"""`parley backup`: one encrypted file of a node's folder, without anything that tells of records or unmasks a sum.

parley backup key -o backup.key                             # once, on a machine of the operator's
parley backup hospital-a -o monday.backup --to parley-backup-…
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.console import emit_json, fail
from parley.cli.options import Json
from parley.cli.passphrase import required
from parley.node.node_file import AggregatorNode, AnyNode, CoordinatorNode, PartyNode, read_node

if TYPE_CHECKING:
    from parley.node.backup import Contents

KEY = "key"


def backup(
    what: Annotated[Path, typer.Argument(help="The node's folder; or `key`, to make a key pair.", metavar="NODE")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write; one that is there is never replaced.")],
    to: Annotated[str | None, typer.Option(help="The operator's public key, by `parley backup key`.")] = None,
    passphrase_file: Annotated[
        Path | None,
        typer.Option(
            help="With `key`: its passphrase in a file of mode 600; else it is asked for, or read from a pipe."
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Write an encrypted backup of a node's folder. The node may be running.

    No share, seed, record or salt is in it; what was left out is named. `parley backup key -o FILE` makes the key pair
    that it is encrypted to: keep that file and its passphrase off the node.

    Example: parley backup hospital-a -o monday.backup --to parley-backup-…. Next: parley restore
    """
    if str(what) == KEY:
        _make_key(out, passphrase_file, json_output)
        return
    from parley.node import backup as backups
    from parley.node.backup_key import parse_public

    if to is None:
        fail("--to is missing: `parley backup key -o FILE` makes a key pair, and prints the public key to give")
    node = read_node(what)
    made = backups.make(node, contents_of(node), out, parse_public(to))
    if json_output:
        emit_json({"files": made.files, "left_out": made.left_out, "unknown": made.unknown, "out": str(out)})
        return
    print(f"written      {out}: {len(made.files)} files of {node.folder}")
    for path in made.unknown:
        print(f"not known    {path}: left out, bring it yourself if it is needed")
    print(f"left out     {len(made.left_out)} files, as docs/backup.md lists them")


def _make_key(out: Path, passphrase_file: Path | None, json_output: bool) -> None:
    from parley.node.backup_key import make

    public = make(out, required(passphrase_file, "the key for backups", confirm=True))
    if json_output:
        emit_json({"public": public, "key": str(out)})
    else:
        print(f"key          {out}: keep it off the nodes, with its passphrase elsewhere\npublic       {public}")
        print(f"next         parley backup NODE -o FILE --to {public}")


def contents_of(node: AnyNode) -> "Contents":
    """What of this node's folder is in a backup."""
    match node:
        case PartyNode():
            from parley.party import backup as party

            return party.contents(node)
        case AggregatorNode():
            from parley.aggregator import backup as aggregator

            return aggregator.contents()
        case CoordinatorNode():
            from parley.coordinator import backup as coordinator

            return coordinator.contents()
