"""Words of two real servers: that they admitted a run, that they never will, and what they have of a party."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from parley.federation.admission import BY_HAND, AdmissionRecord
from parley.federation.errors import ApprovalError, NotAuthenticatedError
from parley.federation.manifest import Manifest
from parley.node.endings import verify_admissions, verify_ends
from parley.node.pins import Pins
from parley.node.refusals import refusal_in
from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.servers import WAIT, Federation, contributions


def pins(servers: Federation) -> Pins:
    return servers.identities["lead"].pins


def end(servers: Federation, role: int, manifest: Manifest, data: bytes = b"", who: str = "lead") -> Any:
    request = wire.EndRequest(manifest_digest=manifest.digest, manifest=data)
    return servers.control(role, who).End(request, timeout=WAIT).end


def refused(call: Any) -> str:
    with pytest.raises(grpc.RpcError) as error:
        call()
    found = refusal_in(error.value)
    return found.name if found is not None else str(error.value.code())


def test_who_admits_a_run_signs_that(servers: Federation) -> None:
    manifest = documents.manifest(run="words")
    servers.admit_silently(manifest)
    words = [servers.propose(role, manifest).admission for role in (0, 1)]
    verify_admissions(words, manifest, pins(servers))
    verify_admissions(words[::-1], manifest, pins(servers))
    for wrong in (words[:1], words[:1] * 2, []):
        with pytest.raises(NotAuthenticatedError, match="both aggregators"):
            verify_admissions(wrong, manifest, pins(servers))
    other = documents.manifest(run="other-words")
    with pytest.raises(NotAuthenticatedError, match="not its word"):
        verify_admissions(words, other, pins(servers))
    # An end is no admission, nor the other way round: each is signed under a label of its own.
    ends = [end(servers, role, manifest) for role in (0, 1)]
    for word, signed in zip(words, ends, strict=True):
        word.signature = signed.signature
    with pytest.raises(NotAuthenticatedError, match="not signed"):
        verify_admissions(words, manifest, pins(servers))


def test_a_run_that_was_never_admitted_ends_with_a_word_and_is_never_admitted_after(servers: Federation) -> None:
    manifest = documents.manifest(run="never")
    assert refused(lambda: end(servers, 0, manifest)) == "not_admitted"
    assert refused(lambda: end(servers, 0, manifest, documents.manifest(run="another").canonical)) == "not_a_member"
    assert refused(lambda: end(servers, 0, manifest, b"no manifest")) == "malformed"
    outsider = refused(lambda: end(servers, 0, manifest, manifest.canonical, "hospital-a"))
    assert outsider in ("not_a_member", "StatusCode.UNAVAILABLE")
    ends = [end(servers, role, manifest, manifest.canonical) for role in (0, 1)]
    assert verify_ends(ends, manifest, pins(servers)) == 0
    for server in servers.servers:
        record = AdmissionRecord(server.path / "state" / "admissions.sqlite")
        with pytest.raises(ApprovalError, match="was ended before it was admitted"):
            record.put(manifest, BY_HAND, "a person")
        record.close()
    assert [end(servers, role, manifest, manifest.canonical).openings for role in (0, 1)] == [0, 0]


def test_an_admitted_run_ends_as_it_is_whatever_else_is_sent(servers: Federation) -> None:
    manifest = documents.manifest(run="opened")
    servers.admit(manifest)
    servers.upload_all(contributions(manifest, 0))
    servers.open(manifest, 0)
    assert [each.openings for each in servers.end(manifest)] == [1, 1]
    assert [end(servers, role, manifest, manifest.canonical).openings for role in (0, 1)] == [1, 1]


@pytest.mark.slow
def test_a_server_that_lost_its_admissions_says_of_no_opened_run_that_there_was_none(tmp_path: Path) -> None:
    """With a peer that lies the word of both would give budget back that was spent."""
    servers, manifest = Federation(tmp_path), documents.manifest(run="forgotten")
    servers.start()
    try:
        servers.admit(manifest)
        servers.upload_all(contributions(manifest, 0))
        servers.open(manifest, 0)
        servers.servers[0].stop()
        with closing(sqlite3.connect(servers.servers[0].path / "state" / "admissions.sqlite")) as database:
            database.execute("DELETE FROM admissions")
            database.commit()
        servers.restart(0)
        assert refused(lambda: end(servers, 0, manifest, manifest.canonical)) == "not_admitted"
        with closing(AdmissionRecord(servers.servers[0].path / "state" / "admissions.sqlite")) as record:
            record.put(manifest, BY_HAND, "whoever restores it")
        assert end(servers, 0, manifest, manifest.canonical).openings == 1
    finally:
        servers.close()


def test_a_party_learns_what_was_opened_with_it_and_nothing_of_others(servers: Federation) -> None:
    manifest = documents.manifest(run="recalled")
    servers.admit(manifest)
    for index, parties in enumerate((("hospital-a", "hospital-b", "hospital-c"), ("hospital-b", "hospital-c"))):
        servers.upload_all(contributions(manifest, index, parties))
        servers.open(manifest, index, expected=parties)

    def recalled(role: int, who: str) -> dict[str, int]:
        answer = servers.share(role, who).Recall(wire.RecallRequest(), timeout=WAIT)
        assert answer.next == 0
        return {each.run: each.last_round for each in answer.runs if each.manifest_digest == manifest.digest}

    for role in (0, 1):
        assert recalled(role, "hospital-a") == {"recalled": 0}
        assert recalled(role, "hospital-b") == {"recalled": 1}
    assert refused(lambda: servers.share(0, "lead").Recall(wire.RecallRequest(), timeout=WAIT)) != "busy"
