"""`parley doctor`: what would keep a node from taking part, and what mends it.

    parley doctor NODE
    parley doctor NODE --manifest RUN.toml --json        # also against a run that was not admitted yet, or a study

Nothing is changed and nothing but a TLS handshake leaves the machine. Exit code 1 if a check failed. The report may
speak of records (columns, rows): it is for the node's own operator.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.console import EXIT_BAD_NEWS, CommandError, emit_json
from parley.cli.options import Json

if TYPE_CHECKING:
    from parley.federation.manifest import Manifest
    from parley.federation.policy import Policy
    from parley.node.credentials import Identity
    from parley.node.doctor import Finding
    from parley.node.node_file import AnyNode

MARKS = {"ok": "ok", "warning": "warning", "failed": "FAILED", "unknown": "unknown"}


def doctor(
    node: Annotated[Path, typer.Argument(metavar="NODE", help="The node's folder, with node.toml.")],
    manifest: Annotated[list[Path] | None, typer.Option(help="A run's manifest, or a study, to check as well.")] = None,
    json: Json = False,
) -> None:
    """Check a node before it takes part. Every problem comes with its fix.

    It looks at certificates, clock, peers, versions, records, the ring and the budget. Nothing is changed, and no
    record leaves the machine. Exit code 1 if a check failed.

    Example: parley doctor hospital-a --manifest RUN.toml
    """
    from parley.node.doctor import healthy, report

    findings = examine(node, [manifest_in(path) for path in manifest or []])
    if json:
        emit_json(report(findings, node))
    else:
        show(findings)
    if not healthy(findings):
        raise SystemExit(EXIT_BAD_NEWS)


def manifest_in(path: Path) -> "Manifest":
    """A manifest's file, or the one that a study would be drafted to."""
    from parley.federation.files import toml_file
    from parley.federation.manifest import read_manifest

    if "mechanism" in toml_file(path, lambda what: CommandError(f"{path.name} {what}")):
        return read_manifest(path)
    from parley.study.document import read

    return read(path).manifest()


def show(findings: Sequence["Finding"]) -> None:
    """A line for each, and what mends it on the next."""
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        print(f"{MARKS[finding.state]:8} {finding.check:{width}}  {finding.problem}")
        if finding.fix:
            print(f"{'':8} {'':{width}}  fix: {finding.fix}")


def examine(folder: Path, manifests: Sequence["Manifest"] = ()) -> "list[Finding]":
    """Every check of a node, by its role. `manifests` are looked at besides those that the node has admitted."""
    from parley.node.doctor import budget, examine_node
    from parley.node.node_file import AggregatorNode, CoordinatorNode, PartyNode
    from parley.node.revoked_check import examine_revoked
    from parley.node.run_checks import examine_run, runs_to_look_at

    findings, node, identity = examine_node(folder)
    if node is None:
        return findings
    if identity is not None:
        findings += examine_revoked(node, identity)
    for manifest in runs_to_look_at(node, manifests, *_known_to(node, findings), findings):
        findings += [*examine_run(node, identity, manifest), *_of_role(node, identity, manifest)]
    if isinstance(node, PartyNode):
        from parley.party.doctor import examine_party

        findings += examine_party(node)
    if isinstance(node, AggregatorNode):
        from parley.aggregator.doctor import examine_server

        findings += examine_server(node)
    if isinstance(node, PartyNode | CoordinatorNode):
        findings += [*budget(node), *_code_of_policy(node)]
    return findings


def _known_to(node: "AnyNode", findings: "list[Finding]") -> "tuple[list[Manifest], set[bytes]]":
    """Runs that wait here for a person, and digests of those that are over: by the books of its role."""
    from parley.errors import ParleyError
    from parley.node.doctor import FAILED, Finding
    from parley.node.node_file import AggregatorNode, PartyNode

    try:
        if isinstance(node, PartyNode):
            from parley.party.doctor import proposed_and_over

            return proposed_and_over(node)
        if isinstance(node, AggregatorNode):
            from parley.aggregator.doctor import over as over_here

            return [], over_here(node)
        from parley.coordinator.doctor import over

        return [], over(node)
    except (ParleyError, OSError) as error:
        fix = f"restore {node.state} from a backup; `parley audit verify {node.folder}`"
        findings.append(Finding("runs", FAILED, str(error), fix))
        return [], set()


def _of_role(node: "AnyNode", identity: "Identity | None", manifest: "Manifest") -> "Iterator[Finding]":
    """Whether this installation knows what the run names; for a party also whether the columns are its own."""
    from parley.federation.code import named_code
    from parley.node.doctor import OK, Finding, guarded
    from parley.node.node_file import AggregatorNode, PartyNode
    from parley.node.run_checks import is_member

    if identity is not None and not is_member(node, identity, manifest):
        return
    if identity is not None:
        yield _policy_of_run(node, identity, manifest)

    def known(check: str) -> Finding:
        if isinstance(node, PartyNode):  # the algorithm is the coordinator's, and not in a party's image
            from parley.party.doctor import columns_of_run

            return columns_of_run(check, node, identity.name if identity else None, manifest)
        from parley.algorithms.registry import named_by

        named_by(manifest)
        return Finding(check, OK, "this installation knows its model, schema and algorithm")

    check = f"run {manifest.run}: {'data' if isinstance(node, PartyNode) else 'vocabulary'}"
    compare = f"`parley party check {node.folder} {manifest.run}` compares them, if the run was proposed here"
    mend = f"change schema.toml or have the manifest changed: {compare}"
    yield guarded(
        check,
        lambda: known(check),
        mend if isinstance(node, PartyNode) else "`pip install --upgrade parley-federation`",
    )
    if any(named_code(manifest)) and not isinstance(node, AggregatorNode):
        yield _code_of_run(f"run {manifest.run}: code", node, manifest)


def _policy_of_run(node: "AnyNode", identity: "Identity", manifest: "Manifest") -> "Finding":
    """Whether policy.toml admits it, before the node is asked."""
    from parley.federation.errors import FederationError
    from parley.node.doctor import guarded
    from parley.node.node_file import PartyNode
    from parley.node.run_checks import policy_of_run

    try:
        policy = _policy(node)
    except FederationError:
        policy = None  # another line says so
    if not isinstance(node, PartyNode):
        return policy_of_run(node, identity.name, policy, manifest)
    from parley.party.doctor import judged, lapsed, memory_fix

    if (found := lapsed(f"run {manifest.run}: policy", node, manifest)) is not None:
        return found
    return guarded(
        f"run {manifest.run}: policy",
        lambda: policy_of_run(node, identity.name, policy, manifest, partial(judged, node)),
        memory_fix(node),
    )


def _allowed(node: "AnyNode") -> "Mapping[str, str]":
    """[code] of a node's policy; what is wrong with the file another check says."""
    from parley.federation.errors import FederationError

    try:
        return getattr(_policy(node), "code", {})
    except FederationError:
        return {}


def _policy(node: "AnyNode") -> "Policy | None":
    """What the node judges by: policy.toml, or what a party's reviewers have put in force."""
    from parley.federation.policy_file import read_policy
    from parley.node.node_file import PartyNode

    if isinstance(node, PartyNode):
        from parley.party.process import settings_of
        from parley.party.review import policy_seen

        return policy_seen(settings_of(node))
    return read_policy(node.policy) if node.policy.exists() else None


def _code_of_run(check: str, node: "AnyNode", manifest: "Manifest") -> "Finding":
    """Whether a user's own module may be run here, and is the one that was agreed on. Imports none of it."""
    from parley.federation.errors import ManifestError
    from parley.models.admitted import require_here
    from parley.models.registry import model_of
    from parley.node.doctor import FAILED, OK, Finding, edited

    try:
        return Finding(check, OK, require_here(manifest, *model_of(manifest), _allowed(node)))
    except ManifestError as error:
        return Finding(
            check, FAILED, str(error), f"until then this node takes no part in the run; {edited(node.policy)}"
        )


def _code_of_policy(node: "AnyNode") -> "Iterator[Finding]":
    """Whether what [code] of policy.toml allows is installed."""
    from parley.learning.errors import ModelError
    from parley.models.admitted import package_of
    from parley.node.doctor import OK, WARNING, Finding

    for name in _allowed(node):
        try:
            yield Finding(f"code {name}", OK, package_of(name))
        except ModelError as error:
            yield Finding(f"code {name}", WARNING, str(error), "no run with it is joined before")
