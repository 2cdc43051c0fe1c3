"""`parley coordinator`: whoever leads the study.

parley coordinator run NODE
parley coordinator approve NODE RUN.toml --digest HEX --by "Dr A. Name"
parley coordinator status NODE --json
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.commands.status import show_status
from parley.cli.console import become, fail
from parley.cli.options import Json, NodeFolder

app = typer.Typer(help="Run the coordinator, and admit runs there by hand.", no_args_is_help=True)


@app.command()
def run(
    node: NodeFolder,
    gather: Annotated[
        float, typer.Option(help="Seconds to wait for the parties to join, before a run fails.")
    ] = 86_400.0,
) -> None:
    """Serve until stopped; unfinished runs continue. Prints one line of JSON when it is ready.

    Example: parley coordinator run lead. Next: parley run RUN.toml --node lead
    """
    become("parley.coordinator", str(node), "--gather", str(gather))


@app.command()
def approve(
    node: NodeFolder,
    manifest: Annotated[Path, typer.Argument(help="The manifest that was read, as TOML.", metavar="FILE")],
    digest: Annotated[str, typer.Option(help="Its digest, as `parley manifest digest` prints it.")],
    by: Annotated[str, typer.Option(help="Who answers for this approval.")],
) -> None:
    """Admit a run by hand that the policy does not admit.

    Some reasons are final, and nobody can override them.

    Example: parley coordinator approve lead RUN.toml --digest 9c2e… --by "N. N." Next: parley run RUN.toml --node lead
    """
    from parley.coordinator.operator_client import coordinator_node
    from parley.federation.admission import AdmissionRecord, Refusal, approve_by_hand
    from parley.federation.manifest import read_manifest
    from parley.federation.meaning import verify_apart_with_charge
    from parley.federation.policy_file import read_policy
    from parley.node.evidence import EvidenceFolder, waits_for_answer
    from parley.privacy.filters import Policy

    found = coordinator_node(node)
    policy = read_policy(found.policy) if found.policy.exists() else None
    found.state.mkdir(mode=0o700, exist_ok=True)
    if pending := EvidenceFolder(found.state).against(read := read_manifest(manifest)):
        fail(waits_for_answer(pending))
    # As the process will ask for it when the run is submitted, so that it is computed once.
    meaning, _ = verify_apart_with_charge(read, "", Policy(), found.verified)
    record = AdmissionRecord(found.admissions)
    decision = approve_by_hand(record, meaning, found.identity.load().name, policy, None, digest, by)
    if isinstance(decision, Refusal):
        fail(f"nobody can admit this, not even by hand: {decision}")
    print(f"admitted by {by}: run {meaning.manifest.run}; submit it again with `parley run`")


@app.command()
def status(node: NodeFolder, json_output: Json = False) -> None:
    """List every run of this coordinator, as `parley status` does.

    Example: parley coordinator status lead
    """
    show_status(node, json_output)
