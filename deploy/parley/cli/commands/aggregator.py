"""`parley aggregator`: an aggregation server.

parley aggregator run NODE
parley aggregator approve NODE RUN.toml --digest 9c2e… --by "N. N."
parley aggregator withdraw NODE heart-1 --by "N. N."     # opens nothing more of it
parley aggregator status NODE --json
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import EXIT_BAD_NEWS, become, emit_json, fail, progress
from parley.federation.admission import AdmissionRecord, Refusal, approve_by_hand
from parley.federation.manifest import read_manifest
from parley.node.trail import Trail

app = typer.Typer(help="An aggregation server: half of the trust in a run.", no_args_is_help=True)
Node = Annotated[Path, typer.Argument(help="The node's folder.", metavar="NODE")]
Json = Annotated[bool, typer.Option("--json", help="End standard output with one line of JSON.")]


@app.command()
def run(node: Node) -> None:
    """Serve until SIGTERM or Ctrl-C; one JSON line on standard output says when it is ready, and on which ports."""
    become("parley.aggregator", str(node))


@app.command()
def approve(
    node: Node,
    manifest: Annotated[Path, typer.Argument(help="The manifest, as TOML.", metavar="MANIFEST")],
    digest: Annotated[str, typer.Option(help="Of the manifest that was read, from `parley manifest check`.")],
    by: Annotated[str, typer.Option(help="Who approves, and answers for it.")],
    json_output: Json = False,
) -> None:
    """Admit a run by hand, over what the policy holds against it. Exit code 1 if not even a person may."""
    from parley.aggregator.admission import policy_for_hand, reasons_against_server
    from parley.aggregator.process import aggregator_node
    from parley.federation.meaning import verify_apart

    file = aggregator_node(node)
    name = file.identity.load().name
    read = read_manifest(manifest)
    peer = replace(name, name=file.peer_name)
    against = reasons_against_server(read, name, peer, file.index, file.noise)
    overridden: list[str] = []
    if not against:
        progress("verifying what the manifest claims")
        file.state.mkdir(mode=0o700, exist_ok=True)
        meaning = verify_apart(read, file.verified)
        record = AdmissionRecord(file.admissions)
        policy = policy_for_hand(file.policy)
        outcome = approve_by_hand(record, meaning, name, policy, None, digest, by)
        record.close()
        if isinstance(outcome, Refusal):
            against = [str(reason) for reason in outcome.reasons]
        else:
            overridden = list(outcome.overridden)
            with Trail.open(file.trail, name) as trail:
                trail.append("run.approved", durable=True, run=read.run, manifest=read.digest.hex(), approved_by=by)
    if json_output:
        body = {"run": read.run, "digest": read.digest.hex(), "admitted": not against, "reasons": against}
        emit_json({**body, "overridden": overridden})
    elif against:
        print("refused\n" + "\n".join(f"  {reason}" for reason in against))
    else:
        print(f"admitted  {read.run}  {read.digest.hex()}" + "".join(f"\n  over {each}" for each in overridden))
    if against:
        raise SystemExit(EXIT_BAD_NEWS)


@app.command()
def withdraw(
    node: Node,
    run: Annotated[str, typer.Argument(help="The run's name.", metavar="RUN")],
    by: Annotated[str, typer.Option(help="Who answers for it.")],
    json_output: Json = False,
) -> None:
    """Open nothing more of a run, from the next call on; its coordinator can still end it. For good."""
    from parley.aggregator.process import aggregator_node
    from parley.cli import withdrawal as withdrawing

    manifest = withdrawing.withdraw(aggregator_node(node), run, by)
    consequence = "opens nothing more; what was opened stays opened, and the run can be ended"
    withdrawing.report(manifest, consequence, json_output)


@app.command()
def status(node: Node, json_output: Json = False) -> None:
    """What this server has admitted and opened, from its state on disk."""
    from parley.aggregator.opening_store import OpeningStore
    from parley.aggregator.process import OPENINGS_FILE, aggregator_node

    file = aggregator_node(node)
    name = file.identity.load().name
    if not (file.state / OPENINGS_FILE).exists():
        fail(f"{node} has no state yet: start it with `parley aggregator run {node}`")
    record = AdmissionRecord(file.admissions)
    store = OpeningStore(file.state / OPENINGS_FILE)
    runs = []
    for admission, withdrawn in record.all():
        manifest = admission.manifest
        opened, ended = store.counts(manifest.run).mine, store.ended(manifest.run) is not None
        runs.append(
            {
                "run": manifest.run,
                "digest": manifest.digest.hex(),
                "state": "withdrawn" if withdrawn else "ended" if ended else "open",
                "opened": opened,
                "rounds": manifest.releases,
                "how": admission.how,
                "approved_by": admission.approved_by,
                "at": admission.at,
            }
        )
    store.close()
    record.close()
    if json_output:
        emit_json({"node": name.uri, "runs": runs})
        return
    print(f"node  {name}")
    for each in runs:
        print(f"{each['run']}  {each['state']}  {each['opened']} of {each['rounds']} sums opened  by {each['how']}")
