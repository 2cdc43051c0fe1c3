"""`parley coordinator`: whoever leads the study.

parley coordinator run NODE
parley coordinator approve NODE RUN.toml --digest HEX --by "Dr A. Name"
parley coordinator status NODE --json
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import become, emit_json, fail

app = typer.Typer(help="Run the coordinator of a study.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(help="The node's folder, with node.toml.", metavar="NODE")]
Json = Annotated[bool, typer.Option("--json", help="End standard output with one line of JSON.")]


@app.command()
def run(
    node: Folder,
    gather: Annotated[
        float, typer.Option(help="Seconds to wait for parties' decisions before a run begins.")
    ] = 86_400.0,
) -> None:
    """Serve until stopped; runs that were under way go on. Prints one line of JSON when it is ready."""
    become("parley.coordinator", str(node), "--gather", str(gather))


@app.command()
def approve(
    node: Folder,
    manifest: Annotated[Path, typer.Argument(help="The manifest that was read, as TOML.")],
    digest: Annotated[str, typer.Option(help="Its digest, as `parley manifest digest` shows it.")],
    by: Annotated[str, typer.Option(help="Who answers for this approval.")],
) -> None:
    """Admit a run by hand that the policy does not admit. Some reasons are final: nobody can wave them through."""
    from parley.coordinator.operator_client import coordinator_node
    from parley.federation.admission import AdmissionRecord, Refusal, approve_by_hand
    from parley.federation.manifest import read_manifest
    from parley.federation.meaning import verify_apart_with_charge
    from parley.federation.policy import read_policy
    from parley.privacy.filters import Policy

    found = coordinator_node(node)
    policy = read_policy(found.policy) if found.policy.exists() else None
    found.state.mkdir(mode=0o700, exist_ok=True)
    # As the process will ask for it when the run is submitted, so that it is computed once.
    meaning, _ = verify_apart_with_charge(read_manifest(manifest), "", Policy(), found.verified)
    record = AdmissionRecord(found.admissions)
    decision = approve_by_hand(record, meaning, found.identity.load().name, policy, None, digest, by)
    if isinstance(decision, Refusal):
        fail(f"not even a person can admit this: {decision}")
    print(f"admitted by {by}: run {meaning.manifest.run}; submit it again with `parley run`")


@app.command()
def status(node: Folder, json_output: Json = False) -> None:
    """Every run on this coordinator, and where it stands."""
    from parley.coordinator.operator_client import show_status

    body = show_status(node, quiet=json_output)
    if json_output:
        emit_json(body)
