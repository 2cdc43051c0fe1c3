"""A server process whose peer was caught: what it refuses, hands out and says of itself, until its operator answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from parley.aggregator.approval import approve
from parley.aggregator.process import aggregator_node
from parley.mpc.evidence import Evidence
from parley.node.credentials import NodeFolder
from parley.node.docket import incident_of
from parley.node.evidence import EvidenceFolder, Held, now
from parley.node.refusals import refusal_in
from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.caught import PAIR, answer, evidence_by
from tests.support.servers import WAIT, Federation, contributions, is_noised, open_request
from tests.support.until import until

COVERT = {"noise.security": "covert", "noise.audit": "1/4"}
OWN = {"noise.security": "malicious", "noise.own": 1.0}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    made = Federation(tmp_path_factory.mktemp("caught"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def proof(federation: Federation) -> Evidence:
    """Against south."""
    return evidence_by([NodeFolder(server.path / "identity").load() for server in federation.servers])


def refused(call: Any) -> str:
    with pytest.raises(grpc.RpcError) as error:
        call()
    found = refusal_in(error.value)
    return "" if found is None else f"{found.name}: {found.message}"


def folder(federation: Federation, role: int = 0) -> EvidenceFolder:
    return EvidenceFolder(federation.servers[role].path / "state")


def test_from_the_catch_to_the_answer(federation: Federation, proof: Evidence, tmp_path: Path) -> None:
    before = {name: documents.manifest(run=name, **changes) for name, changes in (
        ("audited", COVERT), ("plain", {}), ("own", OWN)
    )}  # fmt: skip
    for manifest in before.values():
        federation.admit_silently(manifest)
    # As a process leaves it that dies on the way: the file alone. Two of the runs were open.
    digest = folder(federation).keep(proof.encoded())
    federation.start()
    (held,) = folder(federation).all()
    assert (held.digest, held.server, held.pending) == (digest, PAIR[1], True)
    assert sorted(held.runs) == ["audited", "plain"]
    # As if the plain run had not been open then.
    folder(federation).note(Held(digest, PAIR[1], incident_of(proof), now(), ("audited",), True))

    words = f"aggregator south did not follow the noise protocol (evidence {digest[:16]}…)"
    for name in ("audited", "plain"):
        found = refused(lambda name=name: _open(federation, before[name]))
        assert found == f"caught: {words}"
    status = federation.control(0).Status(wire.StatusRequest(), timeout=WAIT)
    assert status.covert.resting == f"{words} waits for `parley evidence answer`"
    assert [each.hex() for each in status.evidence] == [digest]
    federation.upload_all(contributions(before["own"], 0))
    assert is_noised(before["own"], 0, federation.open(before["own"], 0), 6.0), "that claim holds whatever south does"

    flood = wire.EvidenceRequest(known=[bytes(32)] * 65)
    for stub in (federation.share(0, "hospital-a"), federation.control(0)):
        assert list(stub.Evidence(wire.EvidenceRequest(), timeout=WAIT).evidence) == [proof.encoded()]
        known = wire.EvidenceRequest(known=[proof.digest])
        assert not stub.Evidence(known, timeout=WAIT).evidence
        assert refused(lambda stub=stub: stub.Evidence(flood, timeout=WAIT)).startswith("malformed")
    assert not federation.share(1, "hospital-a").Evidence(wire.EvidenceRequest(), timeout=WAIT).evidence

    after = documents.manifest(run="after", **OWN)
    proposed = federation.propose(0, after)
    assert (proposed.admitted, proposed.pending) == (False, True)
    assert "parley evidence answer" in proposed.reasons[0]
    node = aggregator_node(federation.servers[0].path)
    by_hand = approve(node, after, after.digest.hex(), "N. N.", lambda text: None)
    assert ["parley evidence answer" in reason for reason in by_hand.against] == [True]

    answer(folder(federation), digest)
    until(lambda: federation.propose(0, after).reasons != proposed.reasons)
    assert refused(lambda: _open(federation, before["audited"])) == f"caught: {words}", "it has ended, for good"
    federation.upload_all(contributions(before["plain"], 0))
    assert is_noised(before["plain"], 0, federation.open(before["plain"], 0), 6.0)
    assert not federation.control(0).Status(wire.StatusRequest(), timeout=WAIT).evidence


def _open(federation: Federation, manifest: Any) -> Any:
    return federation.control(0).Open(open_request(manifest, 0), timeout=WAIT + 10)


def test_nobody_but_members_and_coordinators_is_given_evidence(federation: Federation) -> None:
    assert refused(lambda: federation.share(0, "lead").Evidence(wire.EvidenceRequest(), timeout=5)) == ""
    assert refused(lambda: federation.control(0, "hospital-a").Evidence(wire.EvidenceRequest(), timeout=5)) == ""
