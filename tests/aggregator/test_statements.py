"""What two real aggregation servers sign: receipts, statements, their chain; and that a crash leaves one of each."""

import hashlib
import os
from collections.abc import Iterator
from concurrent import futures
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from parley.aggregator.opening_store import OpeningStore
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import commitment_a, commitment_b, upload_digest
from parley.node.pins import Pins
from parley.node.refusals import refusal_in
from parley.node.statements import check_agreement, check_statement, read_receipt, read_statement
from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.servers import WAIT, Contribution, Federation, contributions, query_of
from tests.support.until import until

OPENED = wire.OpenResponse.STATE_OPENED


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    made = Federation(tmp_path)
    yield made
    made.close()


def pins(federation: Federation) -> Pins:
    return federation.identities["lead"].pins


def stated(federation: Federation, manifest: Manifest, role: int, index: int, most: int = 1) -> wire.StatementsResponse:
    request = wire.StatementsRequest(manifest_digest=manifest.digest, round=index, most=most)
    answer: wire.StatementsResponse = federation.share(role, "hospital-a").Statements(request, timeout=WAIT)
    return answer


def open_all(federation: Federation, manifest: Manifest, index: int) -> list[Any]:
    answers = federation.open(manifest, index, 40)
    assert [answer.state for answer in answers] == [OPENED] * 2, answers
    return answers


def upload_digest_of(manifest: Manifest, made: Contribution) -> bytes:
    words = (query_of(made.index), commitment_a(made.payloads[0]), commitment_b(made.payloads[1]))
    uri = NodeName(manifest.federation, Role.party, made.party).uri
    return upload_digest(manifest.digest, made.index, uri, *words)


def test_receipts_and_a_chain_of_statements(federation: Federation) -> None:
    manifest = documents.manifest(run="words")
    federation.start()
    federation.admit(manifest)
    previous = [manifest.digest, manifest.digest]
    for index in range(3):
        made = contributions(manifest, index)
        for role in (0, 1):
            for each in made:
                answer = federation.upload(role, each)
                receipt = read_receipt(answer.receipt, manifest, role, index, pins(federation))
                assert receipt.query_digest == query_of(index)
                assert receipt.upload_digest == upload_digest_of(manifest, each)
                assert federation.upload(role, each).receipt == answer.receipt  # the same again
        opened = open_all(federation, manifest, index)
        pair = []
        for role in (0, 1):
            found = read_statement(opened[role].statement, manifest, role, index, pins(federation))
            check_statement(found, manifest, previous[role])
            assert found.contributions == {each.party: upload_digest_of(manifest, each) for each in made}
            assert found.said.share_digest == hashlib.sha256(opened[role].share).digest()
            assert found.said.opening == opened[role].opening
            previous[role] = found.digest
            pair.append(found)
        check_agreement(pair)
    for role in (0, 1):
        words = stated(federation, manifest, role, 0, 64).statements
        assert len(words) == 3
        assert words[2] == opened[role].statement
        assert stated(federation, manifest, role, 3).statements == []


def test_a_half_that_came_through_a_has_a_receipt_of_b_for_who_asks(federation: Federation) -> None:
    manifest = documents.manifest(run="relayed")
    federation.start()
    federation.admit(manifest)
    key = os.urandom(32)
    first, second = contributions(manifest, 0), contributions(manifest, 1)
    for each in first:
        federation.upload(0, each)
        federation.upload(1, each, relay_key=key)
    open_all(federation, manifest, 0)
    for each in second:
        answer = federation.upload(0, each, relayed=each.sealed(key))
        assert answer.HasField("receipt")
    open_all(federation, manifest, 1)
    receipt = read_receipt(stated(federation, manifest, 1, 1).receipt, manifest, 1, 1, pins(federation))
    assert receipt.upload_digest == upload_digest_of(manifest, second[0])


def test_who_came_too_late_gets_no_receipt(federation: Federation) -> None:
    manifest = documents.manifest(run="late")
    federation.start()
    federation.admit(manifest)
    made = contributions(manifest, 0)
    federation.upload_all(made[1:])
    answers = federation.open(manifest, 0, 60, expected=["hospital-b", "hospital-c"])
    assert [answer.state for answer in answers] == [OPENED] * 2
    late = federation.upload(0, made[0])
    assert not late.HasField("receipt")
    assert not late.complete
    assert not stated(federation, manifest, 0, 0).HasField("receipt")


def test_only_parties_of_the_run_ask_and_for_no_more_than_is_sane(federation: Federation) -> None:
    manifest = documents.manifest(run="asked")
    federation.start()
    federation.admit(manifest)
    for most, index in ((0, 0), (65, 0), (1, manifest.releases)):
        with pytest.raises(grpc.RpcError) as caught:
            stated(federation, manifest, 0, index, most)
        found = refusal_in(caught.value)
        assert found is not None
        assert found.name == "malformed"
    request = wire.StatementsRequest(manifest_digest=manifest.digest, most=1)
    with pytest.raises(grpc.RpcError):
        federation.share(0, "lead").Statements(request, timeout=WAIT)


@pytest.mark.parametrize("role", [pytest.param(0, id="A", marks=pytest.mark.slow), pytest.param(1, id="B")])
def test_a_crash_leaves_one_statement(federation: Federation, role: int) -> None:
    """Prepared with its share, and shown from the commit on: the same bytes ever after; what is discarded is gone."""
    manifest = documents.manifest(run="crashed")
    federation.admit(manifest)
    federation.start(*("aggregator.prepared:2" if role == each else None for each in (0, 1)))
    for each in (0, 1):
        federation.propose(each, manifest)
    federation.upload_all(contributions(manifest, 0))
    first = open_all(federation, manifest, 0)
    made = contributions(manifest, 1)
    federation.upload_all(made)

    def sent_again() -> bool:
        """Its memory is gone, so parties send again; too late where it has opened the round meanwhile."""
        try:
            federation.upload_all(made, (role,))
        except (grpc.RpcError, AssertionError):
            return False
        return True

    def recover() -> None:
        federation.servers[role].died()
        federation.restart(role)
        federation.propose(role, manifest)
        until(lambda: sent_again() or federation.committed(role, manifest, 1))

    from tests.aggregator.test_crashes import opened_over

    answers = opened_over(federation, manifest, 1, recover)
    pair = [read_statement(answers[each].statement, manifest, each, 1, pins(federation)) for each in (0, 1)]
    check_agreement(pair)
    for each in (0, 1):
        before = read_statement(first[each].statement, manifest, each, 0, pins(federation))
        check_statement(pair[each], manifest, before.digest)
        assert stated(federation, manifest, each, 1).statements[0] == answers[each].statement


@pytest.mark.slow
def test_while_a_share_is_prepared_nobody_gets_a_receipt(federation: Federation) -> None:
    """Its set is fixed: who comes now may be left out by honest servers, and must not be able to accuse them."""
    manifest = documents.manifest(run="fixed")
    federation.admit(manifest)
    federation.start(None, "aggregator.agreeing")
    for each in (0, 1):
        federation.propose(each, manifest)
    late, *made = contributions(manifest, 0)
    federation.upload_all(made)
    expected = [each.party for each in made]
    with futures.ThreadPoolExecutor(1) as waiting:
        opening = waiting.submit(federation.open, manifest, 0, 60, expected=expected)
        federation.servers[1].died()  # B has prepared, and mostly so has A, which B does not know yet
        with closing(OpeningStore(federation.servers[0].path / "state" / "openings.sqlite")) as store:
            prepared = store.find(manifest.run, 0) is not None
        if not prepared:
            pytest.skip("B was faster: A had nothing prepared, so that its set was not fixed")
        answer = federation.upload(0, late)
        assert answer.complete
        assert not answer.HasField("receipt")
        federation.restart(1)
        federation.propose(1, manifest)
        assert not federation.upload(1, late).HasField("receipt")
        answers = opening.result(2 * WAIT)
    for role, each in enumerate(answers):
        stated_by = read_statement(each.statement, manifest, role, 0, pins(federation))
        assert set(stated_by.contributions) == set(expected)
