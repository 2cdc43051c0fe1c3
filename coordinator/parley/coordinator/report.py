"""What the coordinator's own books say of one run, for its signed report."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import RoundRecord, RunRow
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.federation.names import Role
from parley.node.node_file import CoordinatorNode
from parley.privacy.ledger import Ledger
from parley.report.facts import Dates, Facts, Left, Present, admission_of, budgets
from parley.v1 import common_pb2

QUESTIONS = "each round's question: the public model and what is asked at it"
CONTROL = "which round to open, over whom; the manifest"
TRACKED = "released figures, the manifest's words, the model: docs/operations.md, Tracking runs"


def facts_of(node: CoordinatorNode, run: str | None, dates: Mapping[str, Dates]) -> Facts:
    """Of a run by its name, or of the newest that was submitted here."""
    coordinator = Coordinator(node.folder)
    with closing(coordinator.store) as store:
        row = store.find(run) if run is not None else _newest(coordinator)
        manifest = Manifest.from_canonical(row.manifest)
        history, answers = store.history(row.digest), store.answers(row.digest)
        ends = tuple(common_pb2.SignedEnd.FromString(word) for word in store.ends(row.digest).values())
        words = tuple(common_pb2.SignedWord.FromString(word) for word in store.statements(row.digest))
        runs = {each.run: each for each in store.runs()}
    known = {name: _dated(dates.get(name, Dates()), each) for name, each in runs.items()}
    found, head, proved = _ledger(node, manifest, {**dates, **known})
    admission, withdrawn = admission_of(node.admissions, manifest)
    down = sum(record.bytes_down for record in history)
    left = [
        Left("the parties, together", QUESTIONS, down, len(history)),
        Left("both aggregators", CONTROL, None),
        *(Left(place, TRACKED, None) for place in _trackers(node)),
    ]
    return Facts(
        manifest=manifest,
        meaning=Meaning(manifest=manifest, **row.claim) if row.claim else None,
        state=row.state.value,
        reason=row.outcome,
        rounds=len(history),
        admission=admission,
        withdrawn=withdrawn,
        left=tuple(left),
        present=_present(manifest, history, answers),
        budgets=found,
        ledger_head=head,
        ends=ends,
        statements=words,
        proved=proved,
    )


def _newest(coordinator: Coordinator) -> RunRow:
    rows = coordinator.store.runs()
    return rows[-1] if rows else coordinator.store.find("")  # which says that there is none


def _dated(known: Dates, row: RunRow) -> Dates:
    """By the store, where the trail does not say."""
    moments = (row.submitted, row.ended if row.state.final else None)
    first, last = ("" if each is None else _utc(each) for each in moments)
    return replace(known, charged=known.charged or first, ended=last)


def _utc(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")


def _ledger(
    node: CoordinatorNode, manifest: Manifest, dates: Mapping[str, Dates]
) -> tuple[tuple[dict[str, object], ...], str, tuple[int, str] | None]:
    if not node.ledger.exists():
        return (), "", None
    with closing(Ledger.open(node.ledger)) as ledger:
        head, charged = ledger.verify(), ledger.runs.get(manifest.run)
        return budgets(ledger, dates), str(head), charged.proved if charged is not None else None


def _present(manifest: Manifest, history: list[RoundRecord], answers: dict[str, tuple[str, str]]) -> dict[str, Present]:
    rounds = Counter(party for record in history for party in record.contributors)
    found = {}
    for role in (Role.party, Role.aggregator):
        for name in manifest.identities(role):
            answer, reason = answers.get(name.uri, ("not answered", ""))
            found[name.uri] = Present(answer, reason, rounds[name.name] if role is Role.party else None)
    return found


def _trackers(node: CoordinatorNode) -> list[str]:
    """Addresses; what goes into a folder stays on this machine."""
    return [place for place in vars(node.track).values() if isinstance(place, str)]
