"""The prime-order group: what comes in is checked, and hashing reaches all of it evenly."""

import hashlib

import numpy as np
import pytest
from nacl import bindings as sodium

from parley.mpc import group
from parley.mpc.errors import InvalidPointError

ORDER = 2**252 + 27742317777372353535851937790883648493


def test_hashing_gives_points_of_the_group_and_the_same_again() -> None:
    points = [group.hashed(i.to_bytes(4, "little")) for i in range(200)]
    assert len(set(points)) == 200
    for point in points:
        assert group.checked(point) == point
        with pytest.raises(RuntimeError):  # the order times it is the identity
            sodium.crypto_scalarmult_ed25519_noclamp(ORDER.to_bytes(32, "little"), point)
    assert group.hashed(bytes(4)) == points[0]


def test_both_halves_of_the_digest_count() -> None:
    """The sum of two maps: one of them alone is not what comes out."""
    digest = hashlib.sha512(b"a text").digest()
    parts = [sodium.crypto_core_ed25519_from_uniform(half) for half in (digest[:32], digest[32:])]
    assert group.hashed(b"a text") not in parts
    assert group.minus(group.hashed(b"a text"), parts[0]) == parts[1]


def test_hashed_points_are_spread_evenly() -> None:
    """Bytes of the y coordinate but its last: 62,000 of them, by chi squared with 255 degrees."""
    points = np.frombuffer(b"".join(group.hashed(i.to_bytes(4, "little")) for i in range(2000)), np.uint8)
    counts = np.bincount(points.reshape(2000, 32)[:, :31].reshape(-1), minlength=256)
    expected = 62_000 / 256
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 7 * (2 * 255) ** 0.5  # false alarm below 1e-8


def test_a_product_never_is_the_identity() -> None:
    point = group.base(group.scalar(bytes([3]) + bytes(63)))
    with pytest.raises(InvalidPointError):
        group.multiply(bytes(32), point)
    with pytest.raises(InvalidPointError):
        group.checked((1).to_bytes(32, "little"))
