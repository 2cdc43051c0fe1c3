"""What `parley doctor` looks at in one run: whether the node and the run are made for each other, by public documents.

Of runs that are over nothing is looked at. A policy is tried on what the manifest states of itself, as the node does
before it computes anything: what is refused here is refused by the node as well.
"""

import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from parley.federation.admission import Admission, AdmissionRecord
from parley.federation.claimed import reasons_even_if_true
from parley.federation.errors import FederationError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.policy import Policy, Reason
from parley.node import trust
from parley.node.credentials import Identity
from parley.node.doctor import FAILED, OK, UNKNOWN, WARNING, Finding, edited, guarded
from parley.node.node_file import NODE_FILE, AggregatorNode, AnyNode, PartyNode

LEAST_MARGIN_BITS = 1.0
REDRAFT = "lower noise.fraction_bits in the study, and draft again: `parley manifest draft STUDY.toml -o RUN.toml`"


def runs_to_look_at(
    node: AnyNode,
    given: Sequence[Manifest],
    proposed: Sequence[Manifest],
    over: Collection[bytes],
    found: list[Finding],
) -> list[Manifest]:
    """Those that are given; and of those that the node has admitted or was proposed all that are not over."""
    admitted = [admission.manifest for admission in _admissions(node, found)]
    known = {manifest.digest: manifest for manifest in [*admitted, *proposed]}
    runs = [manifest for digest, manifest in known.items() if digest not in over]
    runs = list({manifest.digest: manifest for manifest in [*runs, *given]}.values())
    if not runs:
        command = f"`parley doctor {shlex.quote(str(node.folder))} --manifest RUN.toml`"
        fix = f"to look at one that is not admitted yet: {command}"
        gone = len(known)
        said = (
            "none was admitted yet"
            if not gone
            else f"{gone} {'run is' if gone == 1 else 'runs are'} over, no other is here"
        )
        found.append(Finding("manifests", UNKNOWN, said, fix))
    return runs


def examine_run(node: AnyNode, identity: Identity | None, manifest: Manifest) -> Iterator[Finding]:
    """All but what the node's role holds."""
    check, node_toml = f"run {manifest.run}", node.folder / NODE_FILE
    if identity is not None and not is_member(node, identity, manifest):
        what = "`parley study plan STUDY.toml` says who takes part by a study"
        yield Finding(check, FAILED, f"does not list {identity.name}", f"ask for a manifest that does; {what}")
        return
    if isinstance(node, AggregatorNode) and identity is not None:
        names = [operator.name for operator in manifest.aggregators]
        if names.index(identity.name.name) != node.index:
            place = "dials" if node.index == 0 else "is dialled"
            text = f"has the aggregators in the order {', '.join(names)}, and this node {place}"
            fix = f"the first one dials: exchange the two in the manifest, or {edited(node_toml)}"
            yield Finding(check, FAILED, text, fix)
        asked, offered = (manifest.noise.cover, manifest.noise.precision), (node.noise.cover, node.noise.precision)
        if asked != offered:
            text = f"asks for the noise {'/'.join(asked)}, and this server offers {'/'.join(offered)}"
            lines = f'cover = "{asked[0]}" and precision = "{asked[1]}"'
            fix = f"write {lines} under [noise] on both servers, {edited(node_toml)}, or change the manifest's [noise]"
            yield Finding(f"{check}: noise", FAILED, text, fix)
        else:
            yield Finding(f"{check}: noise", OK, f"{'/'.join(asked)}, as this server offers")
    if identity is not None:
        yield _pinned(f"{check}: pins", node, identity, manifest)
    yield guarded(f"{check}: ring", lambda: _range(f"{check}: ring", manifest), REDRAFT)


def is_member(node: AnyNode, identity: Identity, manifest: Manifest) -> bool:
    return identity.name in manifest.identities(node.role)


def policy_of_run(
    node: AnyNode, name: NodeName, policy: Policy | None, manifest: Manifest,
    judge: Callable[[Manifest, NodeName, Policy | None], Sequence[Reason]] = reasons_even_if_true,
) -> Finding:  # fmt: skip
    """Whether the node would admit it by itself. `judge` is the role's, where it knows more than the manifest."""
    check = f"run {manifest.run}: policy"
    held = next((each for each in _admissions(node, []) if each.manifest.digest == manifest.digest), None)
    if held is not None:
        by = "policy.toml" if held.how == "policy" else held.approved_by
        return Finding(check, OK, f"admitted by {by} on {held.at}")
    reasons = judge(manifest, name, policy)
    if not reasons:
        return Finding(check, OK, "policy.toml admits it, by what the manifest states")
    text = "; ".join(str(reason) for reason in reasons)
    change = edited(node.policy)
    if any(reason.final and not reason.mendable for reason in reasons):
        return Finding(check, FAILED, text, f"nobody can approve it as it is: ask for another manifest, or {change}")
    approve = (
        f"`parley {node.role} approve {shlex.quote(str(node.folder))} RUN.toml --digest {manifest.digest.hex()} "
        '--by "YOUR NAME"`'
    )
    if any(reason.final for reason in reasons):
        return Finding(check, FAILED, text, change)
    return Finding(check, WARNING if policy is None else FAILED, text, f"{change}, or answer for this run: {approve}")


def _admissions(node: AnyNode, found: list[Finding]) -> list[Admission]:
    if not node.admissions.exists():
        return []
    try:
        record = AdmissionRecord(node.admissions)
        return [admission for admission, withdrawn in record.all() if not withdrawn]
    except FederationError as error:
        fix = f"restore {node.admissions} from a backup; `parley audit verify {shlex.quote(str(node.folder))}`"
        found.append(Finding("admissions", FAILED, str(error), f"{fix} says which runs there were"))
        return []


def _pinned(check: str, node: AnyNode, identity: Identity, manifest: Manifest) -> Finding:
    """Everybody whom this node dials or serves in the run."""
    others = trust.unpinned(manifest, identity)
    missing = [name for name in others if not (isinstance(node, PartyNode) and name.role is Role.party)]
    if not missing:
        return Finding(check, OK, "every member that this node dials or serves is pinned")
    fix = "; ".join(f"`{pin_command(name, node.folder)}`" for name in missing)
    what = f"not pinned here: {', '.join(f'{each.role}/{each.name}' for each in missing)}"
    return Finding(check, FAILED, what, f"each PIN as its operator reads it out, until then it is not served: {fix}")


def pin_command(peer: NodeName, folder: Path) -> str:
    return f"parley pin add {peer.role}/{peer.name} PIN --node {shlex.quote(str(folder))}"


def _range(check: str, manifest: Manifest) -> Finding:
    from parley.federation.meaning import margin_bits

    margin = min(margin_bits(manifest, index) for index in manifest.kinds_of_rounds)
    if margin < LEAST_MARGIN_BITS:
        text = f"the largest possible sum leaves {margin:.1f} bits to spare, and {LEAST_MARGIN_BITS:g} is the least"
        return Finding(check, FAILED, text, REDRAFT)
    return Finding(check, OK, f"no overflow from answers that follow the protocol ({int(margin)} bits to spare)")
