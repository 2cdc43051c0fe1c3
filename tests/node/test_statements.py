"""Statements of servers: their digests, and what they say of audits."""

import hashlib
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from parley.mpc.evidence import MOST_LANES
from parley.mpc.history import Draft, opening_id
from parley.node.statements import (
    MOST_PENDING,
    Audited,
    Stated,
    StatementError,
    audits_stated,
    check_audits,
    check_statement,
    digest_of,
    mode_of,
    read_statement,
    sign_statement,
    too_few,
)
from parley.v1 import common_pb2
from tests.support.documents import manifest
from tests.support.histories import QUERY, Word, World

COVERT = {"noise.security": "covert", "noise.audit": "1/4"}


def test_digests_cover_the_body_and_not_the_signature(world: World) -> None:
    """One statement has many signatures; its body has one digest."""
    world.state()
    word = world.handed(1)[0]
    again = Word(body=word.body, signature=b"other")
    assert digest_of(word) == digest_of(again)
    assert digest_of(word) == hashlib.sha256(b"parley round statement 1\n" + word.body).digest()


def test_a_mode_is_all_that_a_manifest_says_of_its_noise() -> None:
    assert mode_of(manifest()) == ("semi-honest", "0.5", "")
    assert mode_of(manifest(**COVERT)) == ("covert", "0.5", "1/4")
    assert mode_of(manifest(**{"noise.security": "malicious", "noise.own": 1.0})) == ("malicious", "1", "")


def stated(world: World, index: int) -> list[Stated]:
    """Both servers' words of a round, read."""
    pins = next(iter(world.identities.values())).pins
    words = world.handed(index + 1)
    return [read_statement(word, world.manifest, role, index, pins) for role, word in enumerate(words)]


def problem(world: World, **changes: Any) -> str:
    """With B's first statement."""
    world.state(**changes)
    pair = stated(world, 0)
    for each in pair:
        check_statement(each, world.manifest, world.manifest.digest)
    check_audits(None, pair)
    return ""


def test_audits_go_on_from_round_to_round() -> None:
    world, before = World(**COVERT), None
    for index in range(4):
        world.state()
        pair = stated(world, index)
        before = check_audits(before, pair)
        assert before.made == (2 * index, index)
    assert audits_stated(world.signed.words[1][3], 1) == {
        "manifest": world.manifest.digest.hex(), "epoch": before.epoch.hex() if before else "", "server": 1,
        "audits_made": 3, "audits_passed": 6,
    }  # fmt: skip
    assert audits_stated(plain_word(), 0) == {}


def plain_word() -> bytes:
    world = World()
    world.state()
    return world.signed.words[0][0]


def test_what_one_has_made_the_other_must_have_passed() -> None:
    with pytest.raises(StatementError, match="count different audits"):
        problem(World(**COVERT), audits=(3, 0))


@pytest.mark.parametrize("audits", [(1 << 48) + 1, 1 << 63])
def test_more_audits_than_there_can_be_are_refused(audits: int) -> None:
    with pytest.raises(StatementError, match="more audits than there can be"):
        problem(World(**COVERT), audits=(audits, 0))


def test_a_run_without_audits_counts_none() -> None:
    with pytest.raises(StatementError, match="which the run does not have"):
        problem(World(), audits=(1, 1))


def test_a_server_that_uses_far_more_noise_than_its_audits_leave_is_refused() -> None:
    world = World(**COVERT)
    world.state()
    honest = stated(world, 0)[1]

    def at(start: int) -> Stated:
        said = common_pb2.RoundStatement()
        said.CopyFrom(honest.said)
        said.start, said.audits_made = start, 0
        pairs = [(each.party, each.upload_digest) for each in said.contributions]
        said.opening = opening_id(said.epoch, start, said.length, pairs)
        return replace(honest, said=said)

    check_statement(at(10 * MOST_LANES), world.manifest, world.manifest.digest)
    with pytest.raises(StatementError, match="says 0 audits where its noise took many times as many"):
        check_statement(at(1000 * MOST_LANES), world.manifest, world.manifest.digest)


def said(world: World, start: int, a: int, b: int, epoch: bytes = b"e" * 16) -> list[Stated]:
    """Both servers' words about noise at that place, with so many audits by A and by B; who signed them is settled."""
    counts = ((a, b), (b, a))
    return [
        Stated(
            server,
            common_pb2.RoundStatement(
                round=1, start=start, length=10, epoch=epoch, audits_made=made, audits_passed=passed
            ),
            b"",
        )
        for server, (made, passed) in zip(world.identities, counts, strict=True)
    ]


def test_counts_and_places_do_not_go_back_within_a_session() -> None:
    world = World(**COVERT)
    before = check_audits(None, said(world, 100, 4, 3))
    assert before == Audited(b"e" * 16, 110, (4, 3))
    assert check_audits(before, said(world, 110, 4, 3)).end == 120
    for wrong, what in (
        (said(world, 109, 4, 3), "was used before"),
        (said(world, 110, 3, 3), "fewer audits"),
        (said(world, 110, 9, 2), "fewer audits"),
    ):
        with pytest.raises(StatementError, match=what):
            check_audits(before, wrong)
    fresh = said(world, 0, 0, 0, b"another session.")
    assert check_audits(before, fresh) == Audited(b"another session.", 10, (0, 0))


def test_evidence_is_named_by_whole_digests_and_not_without_end() -> None:
    world = World()
    for pending, what in ((["ab" * 16], "another length"), (["ab" * 32] * (MOST_PENDING + 1), "pieces of evidence")):
        draft_word = signed_with(world, pending)
        found = read_statement(draft_word, world.manifest, 0, 0, next(iter(world.identities.values())).pins)
        with pytest.raises(StatementError, match=what):
            check_statement(found, world.manifest, world.manifest.digest)


def signed_with(world: World, pending: list[str]) -> Word:
    """A's first statement, in which it names evidence."""
    identity = world.signed.identities[0]
    pairs = (("hospital-a", QUERY), ("hospital-b", QUERY))
    draft = Draft(
        round=0, query=QUERY, contributions=pairs, opening=opening_id(bytes(16), 0, 3, pairs), epoch=bytes(16),
        start=0, length=3, share=QUERY, previous=None,
    )  # fmt: skip
    mode = mode_of(world.manifest)
    return Word.FromString(sign_statement(identity, world.manifest.digest, 0, mode, b"l" * 16, draft, pending))


@pytest.mark.parametrize("rate", [Fraction(1, 16), Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)])
@pytest.mark.parametrize("batches", [1, 32, 200, 5000])
def test_too_few_audits_are_those_that_chance_does_not_bring_about(rate: Fraction, batches: int) -> None:
    """Against the exact tail: never refused where that is 2^-50 or more, and refused soon below it."""
    q = float(rate / (rate + (1 - rate) ** 2))
    tail, found = 0.0, 0
    term = batches * math.log1p(-q)
    while tail + math.exp(term) < 2.0**-50:  # P(made <= found) under an honest server, negative binomial
        tail += math.exp(term)
        found += 1
        term += math.log(q) + math.log((batches + found - 1) / found)
    assert not too_few(found, batches, rate)
    far = next((made for made in range(found, -1, -1) if too_few(made, batches, rate)), None)
    if found:
        assert far is not None
        assert far >= found - 4 - 0.1 * found
    assert not too_few(int(batches * q / (1 - q)) + 1, batches, rate)
