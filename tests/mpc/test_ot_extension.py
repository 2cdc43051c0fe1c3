"""OT extension: the correlation, the pads, and every way of cheating as receiver that the checks must catch."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from parley.mpc.errors import PeerCheatedError
from parley.mpc.ot_extension import _reduced
from parley.mpc.randomness import Csprng
from parley.mpc.steps import Bytes, Message, Steps
from parley.mpc.transfers import Room, Transfers
from tests.support.extension import extended
from tests.support.extension import source as made
from tests.support.two import outcomes, run_steps
from tests.support.until import GIVE_UP_SECONDS


@pytest.mark.parametrize("k", [1, 2, 4])
def test_rows_differ_by_delta_where_the_choice_is_one(k: int) -> None:
    both = run_steps(lambda role: extended(role, k, [5000, 100]))
    for mine, theirs in ((both[0], both[1]), (both[1], both[0])):
        for sent, got in zip(mine, theirs, strict=True):
            assert len(got.choices) >= 100
            assert ((sent.sender_rows ^ got.receiver_rows) == got.choices[:, None] * sent.delta).all()
            assert sent.first_index == got.first_index
        assert mine[0].delta.tobytes() == mine[1].delta.tobytes() != theirs[0].delta.tobytes()
        assert mine[0].first_index + len(mine[0].choices) <= mine[1].first_index


def test_the_receiver_knows_the_pad_of_its_choice_and_no_other() -> None:
    a, b = (parts[0] for parts in run_steps(lambda role: extended(role, 4, [3000])))
    for sender, receiver in ((a, b), (b, a)):
        for block in (0, 1):
            zero, one = sender.sender_words(block)
            got = receiver.receiver_words(block)
            chosen = receiver.choices.astype(bool)
            assert (np.where(chosen, one, zero) == got).all()
            assert (np.where(chosen, zero, one) != got).all()
        assert (sender.sender_words(0)[0] != sender.sender_words(1)[0]).all()
        pads = sender.sender_pads(2)[0]
        assert (pads[:, :8].copy().view(np.uint64)[:, 0] == sender.sender_words(0)[0]).all()
    # the two directions' tweaks differ even where an index is the same
    assert not (a.sender_words()[0] == b.sender_words()[0]).any()


def tampered(protocol: Steps[object], exchange: int, change: Callable[[Bytes], None]) -> Steps[object]:
    """The protocol with its own message of one exchange changed: a peer that lies there and is honest otherwise."""
    message = next(protocol)
    count = 0
    while True:
        if count == exchange:
            message = [piece.copy() for piece in message]
            change(message[0])
        answer: Message = yield message
        count += 1
        try:
            message = protocol.send(answer)
        except StopIteration as stop:
            return stop.value


TREES, CORRECTIONS, ANSWER = 1, 2, 4


def cheat(exchange: int, change: Callable[[Bytes], None]) -> object:
    """What the honest server 0 ends with when server 1 cheats."""

    def end(role: int) -> Steps[object]:
        honest: Steps[object] = extended(role, 4, [3000])
        return honest if role == 0 else tampered(honest, exchange, change)

    return outcomes(lambda role, channel: channel.run(end(role)), deadline_seconds=GIVE_UP_SECONDS)[0]


def flip(position: int, bit: int = 0) -> Callable[[Bytes], None]:
    def change(message: Bytes) -> None:
        message[position] ^= 1 << bit

    return change


TREE_BYTES = 2 * 16 * 4 + 64


@pytest.mark.parametrize("position", [TREE_BYTES - 1, TREE_BYTES - 33, 5 * TREE_BYTES + 128, 32 * TREE_BYTES - 40])
def test_a_false_tree_proof_is_caught(position: int) -> None:
    assert isinstance(cheat(TREES, flip(position)), PeerCheatedError)


def test_false_sums_in_every_level_of_a_tree_are_caught_or_harmless() -> None:
    """Both sums of a level are false: whichever the other server uses, its leaves do not match the proof."""

    def change(message: Bytes) -> None:
        message[0 : 2 * 16 * 4] ^= 0x55

    assert isinstance(cheat(TREES, change), PeerCheatedError)


@pytest.mark.parametrize("seed", range(8))
def test_a_correction_with_one_flipped_bit_is_caught(seed: int) -> None:
    """Caught unless delta has none of the tree's four bits set (1 in 16) or the hash collides (2^-128): so a wrong
    bit in
    a third of all trees is caught but for 16^-10 at most."""
    places = Csprng(bytes([seed]) * 32).words(10)

    def change(message: Bytes) -> None:
        chunk = 31 * 256
        for tree, place in enumerate(places):
            message[chunk + 3 * tree * 256 + int(place) % 256] ^= 1 << int(place >> np.uint64(20)) % 8

    assert isinstance(cheat(CORRECTIONS, change), PeerCheatedError)


def test_different_choice_bits_in_different_trees_are_caught() -> None:
    """The attack of the literature: half the trees speak of other choice bits."""

    def change(message: Bytes) -> None:
        message.reshape(-1, 31, 256)[:, 16:] ^= 0xFF

    assert isinstance(cheat(CORRECTIONS, change), PeerCheatedError)


@pytest.mark.parametrize("position", [0, 15, 16, 47])
def test_a_false_answer_to_the_challenge_is_caught(position: int) -> None:
    assert isinstance(cheat(ANSWER, flip(position, 3)), PeerCheatedError)


def test_an_honest_run_passes_the_same_harness() -> None:
    assert isinstance(cheat(99, flip(0)), list)


def test_sums_are_reduced_in_the_field() -> None:
    """Modulo x^128 + x^7 + x^2 + x + 1, against polynomials as Python's integers."""
    products = Csprng(bytes(32)).octets(1000, 32)
    for product, found in zip(products, _reduced(products), strict=True):
        value = int.from_bytes(product.tobytes(), "little")
        for power in range(255, 127, -1):
            value ^= (value >> power & 1) * ((1 << 128 | 0x87) << power - 128)
        assert found.tobytes() == value.to_bytes(16, "little")


def test_transfers_in_a_room_are_the_same_and_take_the_place_of_those_before() -> None:
    def twice(role: int, room: Room | None) -> Steps[list[Transfers]]:
        source = yield from made(role, 4, room)
        first = yield from source.extend(3000)
        kept = replace(first, sender_rows=first.sender_rows.copy(), receiver_rows=first.receiver_rows.copy())
        second = yield from source.extend(5000)
        third = yield from source.extend(100)
        assert np.shares_memory(second.sender_rows, third.sender_rows) == (room is not None)
        assert not np.shares_memory(second.sender_rows, second.receiver_rows)
        return [kept, third]

    plain, roomy = run_steps(lambda role: twice(role, None)), run_steps(lambda role: twice(role, Room()))
    for role in (0, 1):
        for at in (0, 1):
            assert (plain[role][at].sender_rows == roomy[role][at].sender_rows).all()
            assert (plain[role][at].receiver_rows == roomy[role][at].receiver_rows).all()
