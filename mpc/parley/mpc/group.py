"""The prime-order subgroup of edwards25519 (libsodium): points from outside are checked, and hashing to it is a random
oracle.

A point is 32 bytes, a scalar 32 bytes. No function here lets the identity in or out of a product: whoever could bring
it about would know a key that is secret.
"""

import hashlib
from collections.abc import Callable

from nacl import bindings as sodium

from parley.mpc.errors import InvalidPointError

POINT_BYTES = 32
SCALAR_BYTES = 32
WIDE_BYTES = 64
"""Uniform bytes that become a scalar: reduced, they are uniform up to 2^-259."""


def scalar(wide: bytes) -> bytes:
    """Of 64 uniform bytes."""
    return sodium.crypto_core_ed25519_scalar_reduce(wide)


def is_scalar(data: bytes) -> bool:
    """Whether these 32 bytes are a scalar in its only spelling."""
    return scalar(data + bytes(WIDE_BYTES - SCALAR_BYTES)) == data


def checked(point: bytes) -> bytes:
    """What came from outside, if it is a point of the prime-order subgroup, canonical and not the identity."""
    if not sodium.crypto_core_ed25519_is_valid_point(point):
        raise InvalidPointError("what should be a point is not in the prime-order group")
    return point


def base(factor: bytes) -> bytes:
    """The generator times a scalar."""
    return _point(sodium.crypto_scalarmult_ed25519_base_noclamp, factor)


def multiply(factor: bytes, point: bytes) -> bytes:
    """A point times a scalar; what gives the identity is refused, and honest servers never send it."""
    return _point(sodium.crypto_scalarmult_ed25519_noclamp, factor, point)


def plus(a: bytes, b: bytes) -> bytes:
    return _point(sodium.crypto_core_ed25519_add, a, b)


def minus(a: bytes, b: bytes) -> bytes:
    return _point(sodium.crypto_core_ed25519_sub, a, b)


def _point(compute: Callable[..., bytes], *operands: bytes) -> bytes:
    try:
        return compute(*operands)
    except RuntimeError:  # all that libsodium says of what is no point, or gives none
        raise InvalidPointError("points from the other server give none of the prime-order group") from None


def hashed(text: bytes) -> bytes:
    """A random oracle into the group: nobody knows a scalar that gives this point.

    The sum of two Elligator maps of independent halves of SHA-512, cofactor cleared. One map alone would reach half of
    the group at most, and unevenly; the sum of two is indifferentiable from a random oracle (Brier, Coron, Icart,
    Madore, Randriam and Tibouchi 2010; Farashahi, Fouque, Shparlinski, Tibouchi and Voloch 2013).
    """
    digest = hashlib.sha512(text).digest()
    first, second = (sodium.crypto_core_ed25519_from_uniform(half) for half in (digest[:32], digest[32:]))
    return plus(first, second)
