"""`parley aggregator`: an aggregation server.

parley aggregator run NODE
parley aggregator approve NODE RUN.toml --digest 9c2e… --by "N. N."
parley aggregator withdraw NODE heart-1 --by "N. N."     # opens nothing more of it
parley aggregator status NODE --json
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import EXIT_BAD_NEWS, become, emit_json, progress, withdrawn
from parley.cli.options import Json, NodeFolder
from parley.federation.manifest import read_manifest

app = typer.Typer(help="Run an aggregation server, one of the two.", no_args_is_help=True)


@app.command()
def run(node: NodeFolder) -> None:
    """Serve until stopped. One line of JSON says when it is ready, and on which ports.

    Example: parley aggregator run north. Before it: parley doctor north
    """
    become("parley.aggregator", str(node))


@app.command()
def approve(
    node: NodeFolder,
    manifest: Annotated[Path, typer.Argument(help="The manifest, as TOML.", metavar="FILE")],
    digest: Annotated[str, typer.Option(help="Of the manifest that was read, from `parley manifest check`.")],
    by: Annotated[str, typer.Option(help="Who approves, and answers for it.")],
    json_output: Json = False,
) -> None:
    """Admit a run by hand that the policy does not admit.

    Some reasons are final, and nobody can override them. Exit code 1 then.

    Example: parley aggregator approve north RUN.toml --digest 9c2e… --by "N. N."
    """
    from parley.aggregator import approval
    from parley.aggregator.process import aggregator_node

    read = read_manifest(manifest)
    found = approval.approve(aggregator_node(node), read, digest, by, progress)
    against, overridden = found.against, found.overridden
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
    node: NodeFolder,
    run: Annotated[str, typer.Argument(help="The run's name.", metavar="RUN")],
    by: Annotated[str, typer.Option(help="Who answers for it.")],
    json_output: Json = False,
) -> None:
    """Open nothing more of a run, from the next call on, for good. Its coordinator can still end it.

    Example: parley aggregator withdraw north heart-1 --by "N. N."
    """
    from parley.aggregator.process import aggregator_node
    from parley.node import withdrawal

    manifest = withdrawal.withdraw(aggregator_node(node), run, by)
    consequence = "opens nothing more; what was opened stays opened, and the run can be ended"
    withdrawn(manifest.run, manifest.digest, consequence, json_output)


@app.command()
def status(node: NodeFolder, json_output: Json = False) -> None:
    """Show what this server has admitted and opened, as recorded on its disk.

    Example: parley aggregator status north
    """
    from parley.aggregator.approval import runs_of
    from parley.aggregator.process import aggregator_node

    file = aggregator_node(node)
    name, runs = file.identity.load().name, runs_of(file)
    if json_output:
        emit_json({"node": name.uri, "runs": runs})
        return
    print(f"node  {name}")
    for each in runs:
        print(f"{each['run']}  {each['state']}  {each['opened']} of {each['rounds']} sums opened  by {each['how']}")
