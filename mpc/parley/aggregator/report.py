"""What an aggregator's own books say of one run, for its signed report."""

from contextlib import closing

from parley.aggregator.opening_store import OpeningStore, Totals
from parley.aggregator.server import OPENINGS_FILE
from parley.federation.admission import Admission, AdmissionRecord
from parley.federation.errors import FederationError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_apart
from parley.federation.names import Role
from parley.node.credentials import Identity
from parley.node.endings import sign_end
from parley.node.node_file import AggregatorNode
from parley.report.errors import ReportError
from parley.report.facts import Facts, Left, Present
from parley.v1 import common_pb2

WORD_BYTES = 8
SHARE = "this server's share of each noised sum; alone it is uniformly random"
NOISE = "messages of the noise protocol and of openings: masked or random, whatever the answers are"
SIGNED = "signed receipts and statements: public facts"


def facts_of(node: AggregatorNode, identity: Identity, run: str | None) -> Facts:
    """Of a run by its name, or of the newest that was admitted here."""
    openings = node.state / OPENINGS_FILE
    if not openings.exists() or not node.admissions.exists():
        raise ReportError(f"{node.folder} has no runs yet: there is nothing to report")
    admission, withdrawn = _chosen(node, run)
    manifest = admission.manifest
    with closing(OpeningStore(openings)) as store:
        totals, ended, word = store.totals(manifest.run), store.ended(manifest.run), store.word(manifest.run)
        lost = store.lost(manifest.run)
        words = store.statements(manifest.run, totals.openings - 1, 1) if totals.openings else []
    state = "lost" if lost else "withdrawn here" if withdrawn else "under way" if ended is None else "over"
    first, second, lead = (*manifest.identities(Role.aggregator), *manifest.identities(Role.coordinator))
    return Facts(
        manifest=manifest,
        meaning=_meaning(node, manifest),
        state=state,
        rounds=totals.openings,
        admission=admission,
        withdrawn=withdrawn,
        left=(
            Left(lead.uri, SHARE, WORD_BYTES * totals.numbers, totals.openings),
            Left((second if first == identity.name else first).uri, NOISE, None),
            Left("the parties and the coordinator", SIGNED, None),
        ),
        present=_present(manifest, totals),
        ends=() if ended is None else (sign_end(identity, manifest.digest, ended, word),),
        statements=tuple(common_pb2.SignedWord.FromString(word) for word in words),
    )


def _chosen(node: AggregatorNode, run: str | None) -> tuple[Admission, bool]:
    with closing(AdmissionRecord(node.admissions)) as record:
        found = record.all()
    wanted = [each for each in found if run in (None, each[0].manifest.run)]
    if not wanted:
        known = ", ".join(admission.manifest.run for admission, _ in found) or "none"
        raise ReportError(f"no run {run!r} was admitted here: it has {known}")
    return wanted[-1]


def _present(manifest: Manifest, totals: Totals) -> dict[str, Present]:
    return {name.uri: Present(rounds=totals.present.get(name.name, 0)) for name in manifest.identities(Role.party)}


def _meaning(node: AggregatorNode, manifest: Manifest) -> Meaning | None:
    try:
        return verify_apart(manifest, node.verified)
    except FederationError:
        return None
