"""Every gate against the same thing in the clear, on dealt transfers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.mpc.dealer import Dealer
from parley.mpc.errors import ConfigurationError
from parley.mpc.gates import Gates
from parley.mpc.kernels import kernels
from parley.mpc.randomness import Csprng
from parley.mpc.steps import Steps
from tests.support.two import run_steps

LANES = 48


def gates(role: int, slots: int, seed: int = 0) -> Steps[Gates]:
    dealer = Dealer(kernels(), role, bytes([seed]) * 32, i_know_this_is_insecure=True)
    transfers = yield from dealer.extend(slots * LANES)
    return Gates(kernels(), role, LANES, transfers, Csprng(bytes([role + 7]) * 32))


def both(slots: int, protocol: Callable[[Gates], Steps[Any]], seed: int = 0) -> list[Any]:
    def end(role: int) -> Steps[Any]:
        made = yield from gates(role, slots, seed)
        result = yield from protocol(made)
        return result, made.slots_used

    results = run_steps(end)
    assert results[0][1] == results[1][1]
    return [result for result, _ in results]


def shared(seed: int, *shape: int) -> tuple[np.ndarray[Any, Any], list[np.ndarray[Any, Any]]]:
    rng = Csprng(seed.to_bytes(32, "little"))
    shares = [rng.octets(*shape), rng.octets(*shape)]
    return shares[0] ^ shares[1], shares


@pytest.mark.parametrize("bits", [1, 2, 7, 8, 12, 84, 128, 300])
@pytest.mark.parametrize("given_bits", [True, False])
def test_select_multiplies_a_vector_by_a_bit(bits: int, given_bits: bool) -> None:
    width, mask = -(-bits // 8), (1 << (bits - 1) % 8 + 1) - 1
    clear, parts = shared(bits, 3, LANES, width)
    clear[..., -1] &= mask
    for part in parts:
        part[..., -1] &= mask
    b_clear, b_parts = shared(bits + 1, 3, LANES)
    b_parts = [b & 1 for b in b_parts]

    def protocol(g: Gates) -> Steps[Any]:
        return g.select(parts[g.role], bits, b_parts[g.role] if given_bits else None)

    (a, a_bits), (b, b_bits) = both(3, protocol)
    chosen = a_bits ^ b_bits
    if given_bits:
        assert (chosen == b_clear & 1).all()
    for j in range(3):
        assert ((a[j] ^ b[j]) == clear[j] * chosen[j][:, None]).all()


@pytest.mark.parametrize("bits", [3, 5, 9, 10])
def test_one_hot_has_one_bit_at_a_uniform_place(bits: int) -> None:
    a, b = both(80, lambda g: g.one_hot(bits))
    vectors = np.unpackbits(a ^ b, axis=1, bitorder="little")
    if bits > 3:
        assert vectors.shape == (LANES, 1 << bits)
    assert (vectors.sum(axis=1) == 1).all()
    assert len(np.unique(vectors.argmax(axis=1))) > (3 if bits == 3 else 15)


@pytest.mark.parametrize("count", [1, 2, 3, 11, 13])
def test_prefixes_are_products_of_all_bits_so_far(count: int) -> None:
    clear, parts = shared(count, count, LANES)
    clear, parts = clear & 1 | 0, [p & 1 for p in parts]
    ones = np.ones((count, LANES), np.uint8)
    ones[count // 2 :, ::3] = clear[count // 2 :, ::3]
    parts[0] = ones ^ parts[1]
    a, b = both(20, lambda g: g.prefixes(list(parts[g.role])))
    assert ((a ^ b) == np.cumprod(ones, axis=0)).all()


@pytest.mark.parametrize("ring_bits", [21, 25, 64])
def test_shared_bits_become_shared_integers(ring_bits: int) -> None:
    clear, parts = shared(ring_bits, 6, LANES)
    a, b = both(3, lambda g: g.to_ring(parts[g.role] & np.uint8(1), ring_bits))
    mask = np.uint64((1 << ring_bits) - 1)
    assert (((a + b) & mask) == (clear & 1)).all()


def test_random_bits_become_integers_and_multiply_on_the_same_transfers() -> None:
    rng = Csprng(b"products".ljust(32))
    values = [rng.words(LANES), rng.words(LANES)]
    shifts = np.arange(1, 7, dtype=np.uint64)[:, None]

    def protocol(g: Gates) -> Steps[Any]:
        slots, bits = g.random_bits(6)
        integers = yield from g.random_to_ring(slots, 25, block=1)
        (product,) = yield from g.ring_products(slots, [(0, values[g.role] << shifts, 64)])
        return bits, integers, product

    (bits_a, int_a, prod_a), (bits_b, int_b, prod_b) = both(6, protocol)
    bits = (bits_a ^ bits_b).astype(np.uint64)
    assert ((int_a + int_b) & np.uint64((1 << 25) - 1) == bits).all()
    number = (bits << np.arange(1, 7, dtype=np.uint64)[:, None]).sum(axis=0)
    assert (prod_a + prod_b == number * (values[0] + values[1])).all()


@given(st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_less_compares_private_numbers(seed: int) -> None:
    rng = Csprng(seed.to_bytes(32, "little"))
    a, b = (rng.words(LANES) & np.uint64((1 << 20) - 1) for _ in range(2))
    b[:10] = a[:10]
    b[10:20] = a[10:20] ^ np.uint64(1)
    x, y = both(40, lambda g: g.less((a, b)[g.role], 20))
    assert ((x ^ y) == (b < a)).all()


def test_random_digits_agree_in_one_of_sixteen_lanes() -> None:
    a, b = both(4 * 64, lambda g: g.digit_tables(None, 128))
    tables = a ^ b
    less, equal = tables & 1, tables >> 1
    assert not (less & equal).any()
    # 6,144 digits: equal with probability 1/16, less 15/32; six deviations
    assert abs(equal.mean() - 1 / 16) < 6 * (1 / 16 * 15 / 16 / 6144) ** 0.5
    assert abs(less.mean() - 15 / 32) < 6 * (1 / 4 / 6144) ** 0.5


def test_a_gate_without_transfers_left_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="more transfers"):
        both(1, lambda g: g.select(np.zeros((43, LANES, 1), np.uint8), 1))
