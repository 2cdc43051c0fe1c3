"""A person admits a run at an aggregator by hand; and what an aggregator's operator asks of its books."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from parley.aggregator.admission import policy_for_hand, reasons_against_server
from parley.aggregator.opening_store import OpeningStore
from parley.aggregator.server import OPENINGS_FILE
from parley.federation.admission import AdmissionRecord, Refusal, approve_by_hand
from parley.federation.manifest import Manifest
from parley.federation.meaning import verify_apart
from parley.node.errors import NodeError
from parley.node.evidence import EvidenceFolder, waits_for_answer
from parley.node.node_file import AggregatorNode
from parley.node.trail import Trail


@dataclass(frozen=True)
class Approved:
    """What came of it."""

    against: list[str] = field(default_factory=list)
    """Why not even a person may admit it; empty where it is admitted."""
    overridden: list[str] = field(default_factory=list)


def approve(node: AggregatorNode, manifest: Manifest, digest: str, by: str, say: Callable[[str], None]) -> Approved:
    """`digest` is of the manifest that the person has read; `say` tells them what takes time."""
    name = node.identity.load().name
    peer = replace(name, name=node.peer_name)
    if against := reasons_against_server(manifest, name, peer, node.index, node.noise):
        return Approved(against=against)
    if pending := EvidenceFolder(node.state).against(manifest):
        return Approved(against=[waits_for_answer(pending)])
    say("verifying what the manifest claims")
    node.state.mkdir(mode=0o700, exist_ok=True)
    meaning = verify_apart(manifest, node.verified)
    facts = {"run": manifest.run, "manifest": manifest.digest.hex(), "approved_by": by}
    with closing(AdmissionRecord(node.admissions)) as record, Trail.open(node.trail, name) as trail:
        outcome = approve_by_hand(
            record, meaning, name, policy_for_hand(node.policy), None, digest, by,
            tell=lambda: trail.append("run.approved", durable=True, **facts),
        )  # fmt: skip
    if isinstance(outcome, Refusal):
        return Approved(against=[str(reason) for reason in outcome.reasons])
    return Approved(overridden=list(outcome.overridden))


def runs_of(node: AggregatorNode) -> list[dict[str, Any]]:
    """Every run that was admitted here and how many of its sums were opened, as `--json` shows them."""
    openings = node.state / OPENINGS_FILE
    if not openings.exists():
        raise NodeError(f"{node.folder} has no state yet: start it with `parley aggregator run {node.folder}`")
    runs = []
    with (
        closing(AdmissionRecord(node.admissions)) as record,
        closing(OpeningStore(node.state / OPENINGS_FILE)) as store,
    ):
        for admission, withdrawn in record.all():
            manifest = admission.manifest
            ended, lost = store.ended(manifest.run) is not None, store.lost(manifest.run)
            runs.append(
                {
                    "run": manifest.run,
                    "digest": manifest.digest.hex(),
                    "state": "lost" if lost else "withdrawn" if withdrawn else "ended" if ended else "open",
                    "opened": store.counts(manifest.run).mine,
                    "rounds": manifest.releases,
                    "how": admission.how,
                    "approved_by": admission.approved_by,
                    "at": admission.at,
                }
            )
    return runs
