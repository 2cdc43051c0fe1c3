"""What a real server tells a node that was restored: all that it ever admitted, to that node alone, signed."""

import hashlib
import os
import sqlite3
from contextlib import closing
from typing import Any

import grpc
import pytest

from parley.federation.admission import AdmissionRecord
from parley.federation.names import NodeName, Role
from parley.node.accounts import MOST_RUNS, hear, read_account, unpaid
from parley.node.endings import verify_ends
from parley.node.refusals import refusal_in
from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.servers import WAIT, Federation, contributions, is_noised

PARTY, LEAD = NodeName("cardio", Role.party, "hospital-a"), NodeName("cardio", Role.coordinator, "lead")
SERVERS = [NodeName("cardio", Role.aggregator, name) for name in ("north", "south")]


def heard(servers: Federation, role: int, caller: NodeName = PARTY) -> Any:
    stub = servers.share(role, caller.name) if caller.role is Role.party else servers.control(role)

    def ask(request: wire.AccountRequest) -> wire.AccountResponse:
        found: wire.AccountResponse = stub.Account(request, timeout=WAIT)
        return found

    return hear(ask, lambda: servers.authority.pins, SERVERS[role], caller, None)


def edit(servers: Federation, role: int, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(servers.servers[role].path / "state" / "admissions.sqlite", timeout=60)) as database:
        database.execute(statement, values)
        database.commit()


def test_every_run_is_told_whatever_became_of_it(servers: Federation) -> None:
    over, open_, withdrawn = (documents.manifest(run=f"account-{name}") for name in ("over", "open", "withdrawn"))
    for manifest in (over, open_, withdrawn):
        servers.admit(manifest)
    servers.upload_all(contributions(over, 0))
    assert is_noised(over, 0, servers.open(over, 0), 6.0)
    servers.end(over)
    servers.upload_all(contributions(open_, 0, ["hospital-b", "hospital-c"]))
    servers.open(open_, 0, expected=["hospital-b", "hospital-c"])
    record = AdmissionRecord(servers.servers[0].path / "state" / "admissions.sqlite")
    record.withdraw(withdrawn.digest)
    record.close()
    both = [heard(servers, role) for role in (0, 1)]
    for each in both:
        found = each.runs
        assert (found[over.digest].rounds, found[over.digest].openings) == (1, 1)
        assert (found[open_.digest].rounds, found[open_.digest].HasField("end")) == (0, False)
        assert withdrawn.digest in found
    ends = [each.runs[over.digest].end for each in both]
    assert verify_ends(ends, over, servers.authority.pins) == 1
    assert [unpaid(made.digest, both) for made in (over, open_, withdrawn)] == [True, True, True]
    lead = heard(servers, 0, LEAD)
    assert (lead.runs[over.digest].rounds, lead.runs[open_.digest].rounds) == (1, 1)


def test_a_run_that_this_version_would_not_admit_any_more_is_told_as_well(servers: Federation) -> None:
    """One of an earlier version, and one whose servers are others than those that work here now."""
    old = documents.manifest(run="account-old").canonical.replace(b"parley manifest 2", b"parley manifest 1")
    digest = hashlib.sha256(old).digest()
    edit(
        servers, 0, "INSERT INTO admissions (run, digest, manifest, how, approved_by, at, overridden) "
        "VALUES (?, ?, ?, 'hand', 'x', 'y', '')", "account-old", digest, old,
    )  # fmt: skip
    unfit = documents.manifest(run="account-unfit", **{"aggregators.0.name": "west"})
    record = AdmissionRecord(servers.servers[0].path / "state" / "admissions.sqlite")
    record.put(unfit, "hand", "a test")
    record.close()
    found = heard(servers, 0).runs
    assert {digest, unfit.digest} <= found.keys()
    stub = servers.share(0, "hospital-a")
    assert stub.Account(wire.AccountRequest(manifest_digest=digest), timeout=WAIT).manifest == old


def test_of_a_run_that_does_not_name_the_caller_nothing_is_told(servers: Federation) -> None:
    without = documents.manifest(run="account-without", **{"parties.0.name": "hospital-z"})
    servers.admit_silently(without)
    assert without.digest not in heard(servers, 0).runs
    with pytest.raises(grpc.RpcError) as error:
        servers.share(0, "hospital-a").Account(wire.AccountRequest(manifest_digest=without.digest), timeout=WAIT)
    refusal = refusal_in(error.value)
    assert refusal is not None
    assert refusal.name == "not_admitted"


@pytest.mark.parametrize("nonce", [b"", bytes(31), bytes(33)])
def test_an_account_is_bound_to_thirty_two_bytes_that_the_caller_drew(servers: Federation, nonce: bytes) -> None:
    with pytest.raises(grpc.RpcError) as error:
        servers.share(0, "hospital-a").Account(wire.AccountRequest(nonce=nonce), timeout=WAIT)
    refusal = refusal_in(error.value)
    assert refusal is not None
    assert refusal.name == "malformed"


def test_an_account_has_parts_of_sixty_four(servers: Federation) -> None:
    record = AdmissionRecord(servers.servers[1].path / "state" / "admissions.sqlite")
    for index in range(MOST_RUNS + 3):
        record.put(documents.manifest(run=f"account-many-{index}"), "hand", "a test")
    record.close()
    nonce = os.urandom(32)
    answer = servers.share(1, "hospital-a").Account(wire.AccountRequest(nonce=nonce), timeout=WAIT)
    part = read_account(answer.account, servers.authority.pins, SERVERS[1], PARTY, nonce, 0)
    assert len(part.runs) == MOST_RUNS
    assert len(heard(servers, 1).runs) == part.total


def test_a_record_that_cannot_be_read_gives_no_account(servers: Federation) -> None:
    """One run less would be a run that nobody charges."""
    edit(
        servers, 0, "INSERT INTO admissions (run, digest, manifest, how, approved_by, at, overridden) "
        "VALUES ('account-broken', x'aa', x'00', 'hand', 'x', 'y', '')",
    )  # fmt: skip
    try:
        with pytest.raises(grpc.RpcError) as error:
            heard(servers, 0)
        refusal = refusal_in(error.value)
        assert refusal is not None
        assert "altered" in str(refusal)
    finally:
        edit(servers, 0, "DELETE FROM admissions WHERE run = 'account-broken'")


def test_an_upload_on_another_word_than_this_servers_is_refused(servers: Federation) -> None:
    manifest = documents.manifest(run="account-upload")
    servers.admit(manifest)
    (made, *_) = contributions(manifest, 0)
    with pytest.raises(grpc.RpcError) as error:
        servers.upload(0, made, restored=bytes(range(16)))
    refusal = refusal_in(error.value)
    assert refusal is not None
    assert refusal.name == "lost"
    assert servers.upload(0, made).complete
