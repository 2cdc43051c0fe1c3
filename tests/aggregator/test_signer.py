"""What a server signs can be read by whoever pinned its key, and is about that run, that server and that process."""

from dataclasses import replace

import pytest

from parley.aggregator.opening_store import RefusedError
from parley.aggregator.signer import Signer
from parley.federation.errors import FederationError
from parley.mpc.history import Draft, opening_id
from parley.node.endings import verify_admissions, verify_ends
from parley.node.statements import LIFE_BYTES, NoWordError, check_statement, read_receipt, read_statement
from parley.v1 import common_pb2
from tests.support.histories import World

EPOCH, QUERY, UPLOAD = b"\x07" * 16, b"\x01" * 32, b"\x02" * 32


def signer(world: World, role: int) -> Signer:
    identity = list(world.identities.values())[role]
    return Signer(role, lambda: identity)


def drafted(world: World) -> Draft:
    there = tuple((party, UPLOAD) for party in sorted(world.manifest.parties)[: world.manifest.minimum_parties])
    length = world.manifest.model.dimension
    return Draft(
        round=0,
        query=QUERY,
        contributions=there,
        opening=opening_id(EPOCH, 7, length, there),
        epoch=EPOCH,
        start=7,
        length=length,
        share=b"\x03" * 32,
        previous=None,
    )


def word(data: bytes) -> common_pb2.SignedWord:
    return common_pb2.SignedWord.FromString(data)


@pytest.mark.parametrize("role", [0, 1])
def test_a_receipt_names_the_round_and_the_upload_and_no_other_server_signed_it(world: World, role: int) -> None:
    pins = next(iter(world.identities.values())).pins
    said = word(signer(world, role).receipt(world.manifest, 4, QUERY, UPLOAD))
    receipt = read_receipt(said, world.manifest, role, 4, pins)
    assert (receipt.query_digest, receipt.upload_digest, len(receipt.life)) == (QUERY, UPLOAD, LIFE_BYTES)
    for other_role, index in ((1 - role, 4), (role, 5)):
        with pytest.raises(NoWordError):
            read_receipt(said, world.manifest, other_role, index, pins)


def test_a_statement_keeps_to_the_manifest_and_says_what_was_drafted(world: World) -> None:
    pins = next(iter(world.identities.values())).pins
    said = word(signer(world, 1).statement(world.manifest, drafted(world)))
    stated = read_statement(said, world.manifest, 1, 0, pins)
    check_statement(stated, world.manifest, world.manifest.digest)
    assert stated.contributions == dict(drafted(world).contributions)
    with pytest.raises(NoWordError):
        read_receipt(said, world.manifest, 1, 0, pins)


def test_no_statement_is_signed_without_the_one_before(world: World) -> None:
    with pytest.raises(RefusedError, match="round 1 has no signed statement before it"):
        signer(world, 0).statement(world.manifest, replace(drafted(world), round=1))


def test_two_processes_of_one_server_can_be_told_apart_and_one_is_itself(world: World) -> None:
    pins = next(iter(world.identities.values())).pins

    def life(of: Signer) -> bytes:
        return read_receipt(word(of.receipt(world.manifest, 0, QUERY, UPLOAD)), world.manifest, 0, 0, pins).life

    first = signer(world, 0)
    assert life(first) == life(first) != life(signer(world, 0))


def test_a_run_begins_and_ends_by_the_word_of_both(world: World) -> None:
    pins = next(iter(world.identities.values())).pins
    both, digest = [signer(world, role) for role in (0, 1)], world.manifest.digest
    verify_admissions([each.admission(digest) for each in both], world.manifest, pins)
    assert verify_ends([each.end(digest, 7) for each in both], world.manifest, pins) == 7
    with pytest.raises(FederationError):
        verify_admissions([both[0].admission(digest)] * 2, world.manifest, pins)
    with pytest.raises(FederationError):
        verify_ends([both[0].end(digest, 7), both[1].end(digest, 6)], world.manifest, pins)


def test_what_is_signed_has_the_key_that_is_installed_at_that_moment(world: World) -> None:
    """A renewal needs no restart."""
    installed = list(world.identities.values())
    one = Signer(0, lambda: installed[0])
    before = one.admission(world.manifest.digest).aggregator
    installed.reverse()
    assert one.admission(world.manifest.digest).aggregator != before
