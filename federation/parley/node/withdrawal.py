"""`parley party|aggregator withdraw`: a person takes an admission back; the node's process sees it at its next step."""

from parley.federation.admission import AdmissionRecord
from parley.federation.errors import ApprovalError
from parley.federation.manifest import Manifest
from parley.node.node_file import AggregatorNode, PartyNode
from parley.node.trail import Trail


def withdraw(node: PartyNode | AggregatorNode, run: str, by: str) -> Manifest:
    """For good: a run's name is taken once. The trail has it first: what it cannot note is not done."""
    if not by.strip() or not by.isprintable():
        raise ApprovalError("a withdrawal needs the name of the person who answers for it, on one line")
    if not node.admissions.exists():
        raise ApprovalError(f"no run {run!r} was admitted here: there is nothing to withdraw")
    record = AdmissionRecord(node.admissions)
    try:
        found = {admission.manifest.run: admission.manifest for admission, _ in record.all()}
        if run not in found:
            known = ", ".join(found) or "none"
            raise ApprovalError(f"no run {run!r} was admitted here, so there is nothing to withdraw; admitted: {known}")
        manifest = found[run]
        with Trail.open(node.trail, node.identity.load().name) as trail:
            facts = {"run": run, "manifest": manifest.digest.hex(), "approved_by": by}
            record.withdraw(manifest.digest, lambda: trail.append("run.withdrawn", durable=True, **facts))
    finally:
        record.close()
    return manifest
