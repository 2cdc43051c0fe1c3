"""Halves for server B that travel through A: on real servers, and what a party does with its key."""

import os
import time
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest

from parley.federation.manifest import Manifest
from parley.node import relay
from parley.node.refusals import refusal_in
from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.documents import manifest as made_manifest
from tests.support.party_process import EVERYONE, Running
from tests.support.servers import PARTIES, Contribution, Federation, contributions, is_noised
from tests.support.stage import Response, Stage, question
from tests.support.until import until

OPENED, WAITING = wire.OpenResponse.STATE_OPENED, wire.OpenResponse.STATE_WAITING
DIGEST = b"d" * 32


def introduced(servers: Federation, manifest: Manifest) -> dict[str, bytes]:
    """Round 0 opened over everybody's own calls; the keys that B has now."""
    keys = {party: os.urandom(relay.KEY_BYTES) for party in PARTIES}
    for each in contributions(manifest, 0):
        assert servers.upload(0, each).complete
        assert servers.upload(1, each, relay_key=keys[each.party]).complete
    assert is_noised(manifest, 0, servers.open(manifest, 0), 6.0)
    return keys


def bring(servers: Federation, keys: dict[str, bytes], *made: Contribution) -> None:
    """To A alone, with B's halves sealed."""
    for each in made:
        assert servers.upload(0, each, relayed=each.sealed(keys[each.party])).complete


def misses_on_b(servers: Federation, manifest: Manifest, index: int, due: set[str]) -> None:
    """Both are asked to open, so that A hands over what it has; what it has not for long, B says."""

    def missing() -> set[str]:
        answers = servers.open(manifest, index, 0.0, wait_seconds=0.3)
        assert [answer.state for answer in answers] == [WAITING] * 2, answers
        return set(answers[1].missing)

    for _ in range(3):
        missing()
    until(lambda: missing() == due, f"that B misses {due}")


@pytest.mark.slow
def test_what_comes_through_a_counts_and_b_is_not_called(servers: Federation) -> None:
    manifest = documents.manifest(run="relayed")
    servers.admit(manifest)
    keys = introduced(servers, manifest)
    for index in (1, 2):
        bring(servers, keys, *contributions(manifest, index))
        answers = servers.open(manifest, index)
        assert [answer.state for answer in answers] == [OPENED] * 2, answers
        assert set(answers[1].contributors) == set(PARTIES)
        assert is_noised(manifest, index, answers, 6.0)


def test_what_does_not_open_is_missing_on_b_until_its_party_brings_it(servers: Federation) -> None:
    manifest = documents.manifest(run="forged")
    servers.admit(manifest)
    keys = introduced(servers, manifest)
    a, b, c = contributions(manifest, 1)
    other = Contribution.of(manifest, 1, a.party, [9.0] * 3, b"other")
    forged = {
        a.party: other.sealed(keys[a.party]),  # of another upload
        b.party: b.sealed(keys[c.party]),  # under another party's key
        c.party: bytes(relay.SEALED_BYTES),  # of nobody
    }
    for each in (a, b, c):
        assert servers.upload(0, each, relayed=forged[each.party]).complete
    misses_on_b(servers, manifest, 1, set(PARTIES))
    servers.upload_all([a, b, c], [1])
    assert is_noised(manifest, 1, servers.open(manifest, 1), 6.0)


def test_a_party_whose_half_a_may_still_bring_is_not_called_missing_by_b(servers: Federation) -> None:
    manifest = documents.manifest(run="patient")
    servers.admit(manifest)
    keys = introduced(servers, manifest)
    first, second, third = contributions(manifest, 1)
    bring(servers, keys, first, second)
    misses_on_b(servers, manifest, 1, set())  # A waits for the third and has handed nothing over
    (answer,) = servers.open(manifest, 1, 0.0, roles=[0], wait_seconds=0.1)
    assert list(answer.missing) == [third.party]
    bring(servers, keys, third)
    assert is_noised(manifest, 1, servers.open(manifest, 1), 6.0)


def test_a_half_that_a_keeps_back_is_missed_by_b_which_still_has_its_partys_key(servers: Federation) -> None:
    manifest = documents.manifest(run="kept-back")
    servers.admit(manifest)
    keys = introduced(servers, manifest)
    first, second, third = contributions(manifest, 1)
    bring(servers, keys, first, second)
    assert servers.upload(0, third).complete  # as if A had dropped the rest
    misses_on_b(servers, manifest, 1, {third.party})
    servers.upload_all([third], [1])
    assert is_noised(manifest, 1, servers.open(manifest, 1), 6.0)


def test_too_few_is_said_by_a_alone_and_names_who_is_missing(servers: Federation) -> None:
    """B cannot know what A has: it has the round asked for again, and spends none of the run's attempts."""
    manifest = documents.manifest(run="short", **{"rounds.deadline_seconds": 1.0})
    servers.admit(manifest)
    keys = introduced(servers, manifest)
    first, second, third = contributions(manifest, 1)
    bring(servers, keys, first)
    said: list[Any] = []
    with futures.ThreadPoolExecutor(1) as beside:
        asked = beside.submit(servers.open, manifest, 1, 8.0, [1])
        said += servers.open(manifest, 1, 3.0, roles=[0])
        assert [(answer.state, list(answer.missing)) for answer in said] == [
            (wire.OpenResponse.STATE_SHORT, [second.party, third.party])
        ]
        bring(servers, keys, second, third)
        said = [*servers.open(manifest, 1, roles=[0]), *asked.result()]
    assert [answer.state for answer in said] == [OPENED] * 2
    assert is_noised(manifest, 1, said, 6.0)


def test_at_the_deadline_the_sum_is_over_those_who_came_through_a(servers: Federation) -> None:
    manifest = documents.manifest(run="deadline", **{"rounds.deadline_seconds": 1.0})
    servers.admit(manifest)
    keys = introduced(servers, manifest)
    first, second, third = contributions(manifest, 1)
    bring(servers, keys, first, second)
    with futures.ThreadPoolExecutor(1) as earlier:  # B's deadline comes first, by less than its patience
        asked = earlier.submit(servers.open, manifest, 1, roles=[1])
        time.sleep(0.5)
        answers = [*servers.open(manifest, 1, roles=[0]), *asked.result()]
    assert [list(answer.contributors) for answer in answers] == [[first.party, second.party]] * 2
    assert [list(answer.missing) for answer in answers] == [[third.party]] * 2
    assert is_noised(manifest, 1, answers, 3.0)


@pytest.mark.slow
def test_a_server_that_restarted_knows_no_key_and_asks_for_the_parties(tmp_path: Any) -> None:
    servers = Federation(tmp_path)
    try:
        servers.start()
        manifest = documents.manifest(run="forgetful")
        servers.admit(manifest)
        keys = introduced(servers, manifest)
        servers.servers[1].kill()
        servers.restart(1)
        made = contributions(manifest, 1)
        bring(servers, keys, *made)
        misses_on_b(servers, manifest, 1, set(PARTIES))
        servers.upload_all(made, [1])
        assert is_noised(manifest, 1, servers.open(manifest, 1), 6.0)
    finally:
        servers.close()


@pytest.mark.parametrize(
    ("role", "changes"),
    [
        (0, {"relay_key": bytes(32)}),
        (1, {"relayed": bytes(relay.SEALED_BYTES)}),
        (1, {"relay_key": bytes(31)}),
        (0, {"relayed": bytes(relay.SEALED_BYTES + 1)}),
    ],
    ids=["a key for A", "a sealed half for B", "a short key", "a long half"],
)
def test_a_key_for_a_and_a_sealed_half_for_b_are_refused(
    servers: Federation, role: int, changes: dict[str, Any]
) -> None:
    manifest = documents.manifest(run=f"misplaced-{role}-{len(next(iter(changes.values())))}")
    servers.admit(manifest)
    with pytest.raises(grpc.RpcError) as raised:
        servers.upload(role, contributions(manifest, 0)[0], **changes)
    refusal = refusal_in(raised.value)
    assert refusal is not None
    assert refusal.name == "malformed"


# ------------------------------------------------------------ keys


def test_a_key_opens_what_was_sealed_to_this_upload_and_is_dropped_otherwise() -> None:
    keys, given = relay.Keys(), os.urandom(32)
    key = relay.RoundKey(4, given).advance(6)
    sealed = relay.seal(key, DIGEST, b"h" * 32, os.urandom(12))
    assert len(sealed) == relay.SEALED_BYTES
    assert keys.open("a", 6, DIGEST, sealed) is None
    keys.hold("a", 4, given)
    assert keys.open("b", 6, DIGEST, sealed) is None
    assert keys.open("a", 6, DIGEST, sealed) == b"h" * 32
    altered = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for index, digest, wrong in ((6, b"e" * 32, sealed), (6, DIGEST, altered), (6, DIGEST, b""), (7, DIGEST, sealed)):
        keys.hold("a", 4, given)
        assert keys.open("a", index, digest, wrong) is None
        assert not keys.holds("a")


def test_what_is_kept_opens_no_round_that_is_over() -> None:
    """A's records and B's memory together: neither the key of an earlier round, nor the one that was given."""
    keys, given = relay.Keys(), os.urandom(32)
    chain = [relay.RoundKey(0, given).advance(index) for index in range(5)]
    keys.hold("a", 0, given)
    assert keys._held["a"][0].key == chain[1]
    keys.forget_before(4)
    assert keys._held["a"][0].key == chain[4]
    old = relay.seal(chain[3], DIGEST, b"h" * 32, os.urandom(12))
    assert keys.open("a", 3, DIGEST, old) is None
    assert keys.holds("a")  # an old round's half is no forgery
    now = relay.seal(chain[4], DIGEST, b"n" * 32, os.urandom(12))
    assert keys.open("a", 4, DIGEST, now) == b"n" * 32


def test_a_key_ends_by_itself_and_with_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, now = relay.Keys(), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    keys.hold("a", 0, bytes(32))
    now[0] += relay.KEY_SECONDS - 1
    assert keys.holds("a")
    now[0] += 1
    assert not keys.holds("a")
    assert keys._held
    keys.forget_before(0)
    assert not keys._held
    keys.hold("a", 0, bytes(32))
    keys.clear()
    assert not keys._held


# ------------------------------------------------------------ the party


@pytest.mark.usefixtures("verified_in_process")
def test_a_party_gives_b_a_key_once_and_brings_what_is_asked_again_itself(stage: Stage) -> None:
    made = made_manifest(**EVERYONE)
    stage.offer(made)

    def ask(index: int) -> None:
        points = [np.full(3, 0.1 * each) for each in range(index, max(index - 2, -1), -1)]
        stage.coordinator.ask(question(made, index, points))

    with Running(stage):
        for index in range(3):
            ask(index)
            stage.opened(index)
        until(lambda: stage.coordinator.requests[-1].after_round == 2)
        assert [request.round for request in stage.b.pieces] == [0]
        assert [bool(request.relayed) for request in stage.a.pieces] == [False, True, True]
        assert not any(request.relay_key for request in stage.a.pieces)  # never to A
        assert stage.b.refused == 0
        stage.coordinator.repeat = True
        ask(2)
        until(lambda: [request.round for request in stage.b.pieces] == [0, 2])
        assert len({request.relay_key for request in stage.b.pieces}) == 2
        assert len({payload for index, payload in stage.b.whole if index == 2}) == 1  # the same bytes


@pytest.mark.usefixtures("verified_in_process")
def test_while_b_has_no_key_every_half_is_brought_there(stage: Stage) -> None:
    made = made_manifest(**EVERYONE)
    stage.offer(made)
    stage.b.trouble = lambda request, context: Response(rejection=Response.REJECTION_TOO_LATE)
    with Running(stage):
        for index in range(2):
            points = [np.full(3, 0.1 * each) for each in range(index, max(index - 2, -1), -1)]
            stage.coordinator.ask(question(made, index, points))
            until(lambda at=index: any(request.round == at for request in stage.b.pieces))  # type: ignore[misc]
            until(lambda at=index: at in stage.a.uploads)  # type: ignore[misc]
        until(lambda: stage.coordinator.requests[-1].after_round == 1)
        assert not any(request.relayed for request in stage.a.pieces)
