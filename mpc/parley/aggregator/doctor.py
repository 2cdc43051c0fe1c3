"""What `parley doctor` looks at on an aggregation server besides what every node has: its audited noise."""

from collections.abc import Iterator
from contextlib import closing

from parley.aggregator.noise import Open
from parley.aggregator.opening_store import OpeningStore
from parley.aggregator.server import OPENINGS_FILE
from parley.federation.admission import AdmissionRecord
from parley.federation.errors import FederationError
from parley.mpc.errors import MpcError
from parley.node.doctor import FAILED, OK, Finding
from parley.node.evidence import EvidenceFolder
from parley.node.node_file import AggregatorNode


def over(node: AggregatorNode) -> set[bytes]:
    """Digests of admitted runs that this server has ended, or lost."""
    openings = node.state / OPENINGS_FILE
    if not (openings.exists() and node.admissions.exists()):
        return set()
    with closing(AdmissionRecord(node.admissions)) as record, closing(OpeningStore(openings)) as store:
        runs = [admission.manifest for admission, _ in record.all()]
        return {run.digest for run in runs if store.ended(run.run) is not None or store.lost(run.run)}


def examine_server(node: AggregatorNode) -> Iterator[Finding]:
    """Whether noise is audited here, for which runs and how; nothing where no run has asked for it."""
    check, openings = "audited noise", node.state / OPENINGS_FILE
    if not openings.exists():
        return
    try:
        with closing(AdmissionRecord(node.admissions)) as record, closing(OpeningStore(openings)) as store:
            runs = [admission.manifest for admission, withdrawn in record.all() if not withdrawn]
            audited = [run for run in runs if run.noise.parts.audit is not None]
            going = [run for run in audited if store.ended(run.run) is None and not store.lost(run.run)]
        pending = EvidenceFolder(node.state).pending()
    except (FederationError, MpcError) as error:
        yield Finding(
            check, FAILED, str(error), f"restore {node.state} from a backup; `parley audit verify {node.folder}`"
        )
        return
    needed = Open.of(going)
    if pending:
        text = f"none is made: {pending[-1]}"
        yield Finding(check, FAILED, text, f"answer the evidence, `parley evidence list {node.folder}`")
    elif needed.lanes:
        words = f"batches of {needed.lanes:,} lanes, {needed.audit_rate} of them audited, for {len(going)} open "
        yield Finding(check, OK, words + ("run" if len(going) == 1 else "runs"))
    elif audited:
        yield Finding(check, OK, "none is made: every run that asked for it is over")
