"""Base oblivious transfers, honest and hostile."""

import hashlib

import numpy as np
import pytest
from nacl import bindings as sodium

from parley.mpc import group
from parley.mpc.base_ot import _Place, transfer
from parley.mpc.errors import InvalidPointError
from parley.mpc.randomness import Csprng
from tests.support.two import run_steps

SESSION = bytes(range(16))
IDENTITY = (1).to_bytes(32, "little")
SMALL_ORDER_POINTS = [
    bytes(32),  # order 4
    IDENTITY,
    (2**255 - 20).to_bytes(32, "little"),  # order 2
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),  # order 8
    (2**255 - 19).to_bytes(32, "little"),  # zero, not canonical
    b"\xff" * 32,
    hashlib.sha256(b"rarely a point").digest(),
]


def test_the_receiver_gets_the_key_of_its_choice_and_no_other() -> None:
    a, b = run_steps(lambda role: transfer(role, SESSION, Csprng(bytes([role]) * 32)))
    for sender, receiver in ((a, b), (b, a)):
        rows = np.arange(128)
        assert (sender.sent[rows, receiver.choices] == receiver.received).all()
        assert (sender.sent[rows, 1 - receiver.choices] != receiver.received).any(axis=1).all()
        assert 30 < receiver.choices.sum() < 98  # 128 fair bits: 6 deviations, false alarm 2e-9
    assert len(np.unique(np.concatenate([a.sent, b.sent]).reshape(-1, 16), axis=0)) == 512


def test_keys_depend_on_the_session() -> None:
    a, _ = run_steps(lambda role: transfer(role, SESSION, Csprng(bytes([role]) * 32)))
    other, _ = run_steps(lambda role: transfer(role, b"another session.", Csprng(bytes([role]) * 32)))
    assert (a.sent != other.sent).any(axis=2).all()


def torsioned(point: bytes) -> bytes:
    """The point plus one of order 8: on the curve, outside the prime-order group."""
    return sodium.crypto_core_ed25519_add(point, SMALL_ORDER_POINTS[3])


GOOD = sodium.crypto_scalarmult_ed25519_base_noclamp(bytes([5] + [0] * 31))


@pytest.mark.parametrize("bad", [*SMALL_ORDER_POINTS, "torsion"])
@pytest.mark.parametrize("place", [0, 1, 2, 3 * 128 - 1])
def test_an_invalid_point_ends_the_transfer(bad: bytes | str, place: int) -> None:
    """The sender's, the receiver's for either bit, and the last of all."""
    points = [GOOD] * (3 * 128)
    points[place] = torsioned(GOOD) if isinstance(bad, str) else bad
    protocol = transfer(0, SESSION, Csprng(bytes(32)))
    next(protocol)
    with pytest.raises(InvalidPointError):
        protocol.send([np.frombuffer(b"".join(points), np.uint8)])


@pytest.mark.parametrize("bit", [0, 1])
def test_a_receiver_that_takes_back_what_the_oracle_adds_is_refused(bit: int) -> None:
    """Its point and the oracle's give the identity: the key would be a hash of what everybody knows."""
    place = _Place(SESSION, 0, 0)
    pair = [GOOD, GOOD]
    pair[bit] = group.minus(IDENTITY, place.oracle(bit, GOOD))
    points = [GOOD, *pair, *[GOOD] * (3 * 127)]
    protocol = transfer(0, SESSION, Csprng(bytes(32)))
    next(protocol)
    with pytest.raises(InvalidPointError, match="give none"):
        protocol.send([np.frombuffer(b"".join(points), np.uint8)])


def test_no_oracle_and_no_key_is_another_ones() -> None:
    """Session, direction, index, bit and the other point are in each."""
    places = [
        _Place(session, sender, index)
        for session in (SESSION, SESSION[::-1])
        for sender in (0, 1)
        for index in (0, 127)
    ]
    points = {place.oracle(bit, other) for place in places for bit in (0, 1) for other in (GOOD, IDENTITY)}
    assert len(points) == 32
    three = (GOOD, IDENTITY, GOOD), (IDENTITY, GOOD, GOOD), (GOOD, GOOD, IDENTITY)
    keys = {place.key(bit, each, GOOD).tobytes() for place in places for bit in (0, 1) for each in three}
    assert len(keys) == 48


@pytest.mark.slow
def test_a_receiver_s_two_points_do_not_tell_its_bit() -> None:
    """Which is the random one: by the low bits of both, of 2,048 transfers."""
    bits, ones = [], []
    for seed in range(16):
        protocol = transfer(1, SESSION, Csprng(bytes([seed]) * 32))
        (mine,) = next(protocol)
        with pytest.raises(StopIteration) as done:
            protocol.send([mine])
        bits.append(done.value.value.choices)
        ones.append(mine.reshape(128, 3, 32)[:, 1:, 0] & 1)
    chosen, low = np.concatenate(bits).astype(float), np.concatenate(ones).astype(float)
    for column in low.T:
        correlation = np.mean((2 * chosen - 1) * (2 * column - 1)) * len(chosen) ** 0.5
        assert abs(correlation) < 6  # false alarm 4e-9
