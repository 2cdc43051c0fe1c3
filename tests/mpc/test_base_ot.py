"""Base oblivious transfers, honest and hostile."""

import hashlib

import numpy as np
import pytest
from nacl import bindings as sodium

from parley.mpc.base_ot import transfer
from parley.mpc.errors import InvalidPointError
from parley.mpc.randomness import Csprng
from tests.support.two import run_steps

SESSION = bytes(range(16))
ORDER = 2**252 + 27742317777372353535851937790883648493
SMALL_ORDER_POINTS = [
    bytes(32),  # order 4
    (1).to_bytes(32, "little"),  # the identity
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


@pytest.mark.parametrize("bad", [*SMALL_ORDER_POINTS, "torsion"])
@pytest.mark.parametrize("place", ["sender's", "receiver's first", "receiver's last"])
def test_an_invalid_point_ends_the_transfer(bad: bytes | str, place: str) -> None:
    good = sodium.crypto_scalarmult_ed25519_base_noclamp(bytes([5] + [0] * 31))
    point = torsioned(good) if isinstance(bad, str) else bad
    protocol = transfer(0, SESSION, Csprng(bytes(32)))
    next(protocol)
    with pytest.raises(InvalidPointError):
        protocol.send([np.frombuffer(point if place == "sender's" else good, np.uint8)])
        points = [good] * 128
        points[0 if "first" in place else -1] = point
        protocol.send([np.frombuffer(b"".join(points), np.uint8)])


def test_a_receiver_that_echoes_the_senders_point_is_refused() -> None:
    """R = S would make the key of bit 1 a hash of the identity, which everybody knows."""
    protocol = transfer(0, SESSION, Csprng(bytes(32)))
    (mine,) = next(protocol)
    good = sodium.crypto_scalarmult_ed25519_base_noclamp(bytes([5] + [0] * 31))
    protocol.send([np.frombuffer(good, np.uint8)])
    with pytest.raises(InvalidPointError):
        protocol.send([np.frombuffer(mine.tobytes() * 128, np.uint8)])
