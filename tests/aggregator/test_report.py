"""What an aggregator says of a run for its report: shares it released, who was in the sums, its own signed end."""

from dataclasses import replace
from pathlib import Path

import pytest

import parley.aggregator.report
from parley.aggregator.opening_store import Opened, OpeningStore
from parley.aggregator.report import facts_of
from parley.aggregator.server import OPENINGS_FILE
from parley.federation.admission import AdmissionRecord
from parley.node.endings import end_signed_by
from parley.node.node_file import AggregatorNode, read_node
from parley.report.errors import ReportError
from parley.report.identity import identity_of
from tests.support import documents
from tests.support.openings import request
from tests.support.servers import Federation


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AggregatorNode:
    """Server A's; its accounting is tests/federation/test_meaning.py's."""
    monkeypatch.setattr(parley.aggregator.report, "verify_apart", lambda made, kept: documents.meaning(run=made.run))
    made = Federation(tmp_path)
    made.configure(0, made.servers[0].path, peer=1)
    found = read_node(made.servers[0].path)
    assert isinstance(found, AggregatorNode)
    return found


def test_a_server_reports_what_it_released_and_signs_the_end_of_its_own_books(node: AggregatorNode) -> None:
    identity, made = identity_of(node.identity), documents.manifest()
    with pytest.raises(ReportError, match="has no runs yet"):
        facts_of(node, identity, None)
    node.state.mkdir(exist_ok=True)
    record = AdmissionRecord(node.admissions)
    record.put(made, "policy", "policy")
    record.close()
    store = OpeningStore(node.state / OPENINGS_FILE)
    for index in range(2):
        asked = replace(request(), run=made.run, round=index)
        store.prepare(asked, Opened(("hospital-a", "hospital-c"), b"share", bytes(16)))
        store.commit(made.run, index)
    found = facts_of(node, identity, None)
    assert (found.state, found.rounds, found.ends) == ("under way", 2, ())
    assert found.left[0].bytes == 2 * 8 * request().dimension
    rounds = {uri.split("/")[-1]: each.rounds for uri, each in found.present.items()}
    assert rounds == {"hospital-a": 2, "hospital-b": 0, "hospital-c": 2}
    store.end(made.run)
    store.close()
    found = facts_of(node, identity, made.run)
    assert found.state == "over"
    (end,) = found.ends
    assert end.openings == 2
    assert end_signed_by(identity.pin, end)
    with pytest.raises(ReportError, match="no run 'other' was admitted here: it has heart-1"):
        facts_of(node, identity, "other")
