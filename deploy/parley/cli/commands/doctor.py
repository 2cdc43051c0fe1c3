"""`parley doctor`: what would keep a node from taking part, and what mends it.

    parley doctor NODE
    parley doctor NODE --manifest RUN.toml --json        # also against a run that was not admitted yet

Nothing is changed and nothing but a TLS handshake leaves the machine. Exit code 1 if a check failed. The report may
speak of records (columns, rows): it is for the node's own operator.
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import EXIT_BAD_NEWS, emit_json

MARKS = {"ok": "ok", "warning": "warning", "failed": "FAILED", "unknown": "unknown"}


def doctor(
    node: Annotated[Path, typer.Argument(metavar="NODE", help="The node's folder, with node.toml.")],
    manifest: Annotated[list[Path] | None, typer.Option(help="A run's manifest to look at as well.")] = None,
    json: Annotated[bool, typer.Option("--json", help="End with one line of JSON.")] = False,
) -> None:
    """Check certificates, clock, peers, versions, records, the ring and the budget: check, problem, fix."""
    from parley.federation.manifest import read_manifest
    from parley.node.doctor import examine, healthy, report

    findings = examine(node, [read_manifest(path) for path in manifest or []])
    if json:
        emit_json(report(findings, node))
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            print(f"{MARKS[finding.state]:8} {finding.check:{width}}  {finding.problem}")
            if finding.fix:
                print(f"{'':8} {'':{width}}  fix: {finding.fix}")
    if not healthy(findings):
        raise SystemExit(EXIT_BAD_NEWS)
