"""`parley evidence`: proof that an aggregation server did not follow the noise protocol, and what a node does about it.

parley evidence verify 3f9c….evidence                        # on any machine: no node is needed
parley evidence verify 3f9c….evidence --pin 02:3f1a:…        # is it this key that departed?
parley evidence list hospital-a
parley evidence answer hospital-a 3f9c2b10 --by "N. N." --reason "south has a new operator"

`verify` exits with 0 where the evidence convicts, with 1 where it does not, or not whom it was asked about by name,
and with 2 for a file that is no evidence.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.console import EXIT_BAD_NEWS, emit_json, fail
from parley.cli.options import Json, NodeFolder
from parley.federation.manifest import Manifest, read_manifest
from parley.node.evidence import MOST_BYTES, EvidenceFolder, Held, digest_of

if TYPE_CHECKING:
    from parley.mpc.evidence import Evidence

app = typer.Typer(help="Check proof that a server cheated, and answer it.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Check proof that a server cheated, and answer it."""


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The evidence, as a node keeps or hands it out.")],
    pin: Annotated[
        str | None, typer.Option(metavar="KEY", help="A server's pin, as `parley node show` prints it there.")
    ] = None,
    manifest: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A run's manifest, with --pin: which of its servers is meant.")
    ] = None,
    json: Json = False,
) -> None:
    """Replay what evidence is about, on any machine, and say who departed from the protocol.

    It names a key, for anybody can make up a name: --pin says whose, and --manifest with it in which run's place.
    Nothing in the file is believed. Exit code 1 if it convicts nobody, or somebody else than asked about; with
    --manifest alone it is nobody's, for a manifest has no keys.

    Example: parley evidence verify 3f9c….evidence --pin 02:3f1a:…
    """
    from parley.mpc.errors import EvidenceError
    from parley.mpc.evidence import Evidence, judge
    from parley.node.docket import context_of, pair_of, signed_by
    from parley.node.pins import key_text, parse_key

    wanted = parse_key(pin) if pin is not None else None
    run = read_manifest(manifest) if manifest is not None else None
    data = _data(file)
    try:
        evidence = Evidence.decode(data)
    except EvidenceError as error:
        fail(str(error))
    verdict = judge(evidence, signed_by)
    meant = None if run is None else context_of(pair_of(run)) == evidence.context
    right = None if wanted is None else wanted == verdict.key
    body: dict[str, Any] = {
        "guilty": verdict.guilty,
        "reason": verdict.reason,
        "fingerprint": f"SHA-256:{digest_of(verdict.key)}",
        "key": key_text(verdict.key),
        "key_is_the_pin": right,
        "session_is_of_the_manifest": meant,
        "server": _server(run, evidence) if meant and right else None,
        "message": verdict.frame,
        "batch": evidence.record.number,
        "lanes": evidence.lanes,
        "role": "AB"[evidence.role],
        "tables": _tables(evidence),
        "session": evidence.session.hex(),
        "evidence": digest_of(data),
    }
    if json:
        emit_json(body)
    else:
        _show(body, run, evidence.role)
    unnamed = run is not None and wanted is None  # by its words alone it is of those servers, whoever wrote them
    if not verdict.guilty or unnamed or False in (right, meant):
        raise SystemExit(EXIT_BAD_NEWS)


@app.command(name="list")
def list_(node: NodeFolder, json_output: Json = False) -> None:
    """List the evidence that a node keeps, what followed from it, and what waits for an answer.

    Example: parley evidence list hospital-a
    """
    from parley.node.node_file import read_node

    folder = EvidenceFolder(read_node(node).state)
    held, unread = folder.all(), folder.unread()
    if json_output:
        emit_json({"evidence": [_body(each) for each in held], "unread": unread})
        return
    for each in held:
        state = "WAITS FOR AN ANSWER" if each.answer is None else f"answered by {each.answer.by}: {each.answer.reason}"
        runs = f"; held against {', '.join(each.runs)}" if each.runs else ""
        print(f"{each.digest}\n  {each.at}  {each.server}{runs}\n  {state}")
    for digest in unread:
        print(f"{digest}\n  not looked at, or it convicts nobody who is known here")
    if not held and not unread:
        print("there is none: no server of this node's runs was caught")


@app.command()
def answer(
    node: NodeFolder,
    digest: Annotated[str, typer.Argument(metavar="DIGEST", help="Of the evidence, or how it begins: 8 digits.")],
    by: Annotated[str, typer.Option(help="Who answers, and stands for it.")],
    reason: Annotated[str, typer.Option(help="Why this node may work with that server again: one line.")],
    json_output: Json = False,
) -> None:
    """Let a node take part in runs with a server again that was caught. What was charged stays charged.

    The answer goes into the audit trail. Every node needs one of its own operator.

    Example: parley evidence answer hospital-a 3f9c2b10 --by "N. N." --reason "south has a new operator"
    """
    from parley.mpc import crash
    from parley.node.node_file import read_node
    from parley.node.trail import Trail, says

    here = read_node(node)
    name = here.identity.load().name
    folder = EvidenceFolder(here.state)
    held = folder.answered(digest, by, reason)
    with Trail.open(here.trail, name) as trail:
        # The same words again after a crash are one answer; another person's are another.
        if not says(here.trail, "evidence.answered", held.digest, approved_by=by, reason=reason):
            trail.append(
                "evidence.answered", durable=True, digest=held.digest, peer=held.server, approved_by=by, reason=reason
            )
    crash.point("evidence.answered")
    folder.change(held.digest, answer=held.answer)
    if json_output:
        emit_json(_body(held))
    else:
        print(f"answered  {held.digest[:16]}…\n  {name.name} takes part in runs with {held.server.name} again")


def _data(file: Path) -> bytes:
    from parley.federation.files import endless

    if endless(file):
        fail(f"{file} is no regular file: give one that a node keeps, NODE/state/evidence/DIGEST.evidence")
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}")


def _server(run: Manifest | None, evidence: "Evidence") -> str | None:
    return run.aggregators[evidence.role].name if run is not None else None


def _tables(evidence: "Evidence") -> str:
    from parley.mpc.tables import by_digest

    known = by_digest().get(evidence.tables)
    return f"{known.cover}/{known.precision}" if known is not None else evidence.tables.hex()


def _show(body: dict[str, Any], run: Manifest | None, role: int) -> None:
    if body["guilty"]:
        print(f"guilty    whoever holds {body['fingerprint']} departed from the protocol")
    print(f"what      {body['reason']}")
    print(
        f"where     batch {body['batch']:,}, {body['lanes']:,} lanes, tables {body['tables']}, as server {body['role']}"
    )
    print(f"session   {body['session']}")
    print(f"key       {body['key']}")
    if body["key_is_the_pin"] is not None:
        print("pin       " + ("it is that key" if body["key_is_the_pin"] else "it is ANOTHER key than the one given"))
    if run is not None and not body["session_is_of_the_manifest"]:
        print(f"manifest  the session is NOT of run {run.run}'s two servers")
    elif run is not None:
        server = run.aggregators[role].name
        known = body["key_is_the_pin"]
        print(
            f"manifest  in a session of run {run.run}'s servers, as {server}"
            + ("" if known else f"; a manifest has no keys, anybody can have made this up: give {server}'s --pin")
        )
    print(f"evidence  {body['evidence']}")


def _body(held: Held) -> dict[str, Any]:
    return {
        "digest": held.digest,
        "server": held.server.uri,
        "at": held.at,
        "runs": list(held.runs),
        "charged": held.charged,
        "answer": vars(held.answer) if held.answer is not None else None,
    }
