"""Encoding never exceeds a clip, sharing hides, and no share can make a release wrap around."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from parley.mpc.errors import ConfigurationError, RangeError
from parley.mpc.randomness import Csprng
from parley.mpc.ring import Lattice, expand, share


def small_ring(ring_bits: int, dropped_bits: int) -> Lattice:
    """Z_2^ring_bits embedded in the top bits of Z_2^64: the same code, every share tried."""
    return Lattice(1.0, 1, 1 + (64 - ring_bits) + dropped_bits)


@pytest.mark.parametrize("ring_bits", [4, 6, 8])
def test_no_share_makes_a_release_wrap_exhaustively_on_small_rings(ring_bits: int) -> None:
    """Every noise value, every share of it and every amount of dropped bits: the opened value is the noise rounded up
    at
    the place that server 0's share fixes, plus the data, exactly, as long as the range check's condition holds."""
    size, embed = 1 << ring_bits, np.uint64(64 - ring_bits)
    shares_a = np.arange(size, dtype=np.uint64)
    for dropped in range(1, ring_bits):
        lattice = small_ring(ring_bits, dropped)
        half = 1 << (ring_bits - dropped - 1)
        for x in range(-size // 2, size // 2):
            shares_b = (np.uint64(x % size) - shares_a) & np.uint64(size - 1)
            rounded = -((shares_a.astype(np.int64) % (1 << dropped) - x) // (1 << dropped))  # ceil((x - r) / 2^dropped)
            for g in range(-half, half, max(half // 2, 1)):
                ok = (rounded + g >= -half) & (rounded + g < half)
                data_a = Csprng(bytes(32)).words(size)
                data_b = np.array([g], np.int64).view(np.uint64) - data_a
                a = lattice.release_share(0, data_a, shares_a << embed)
                b = lattice.release_share(1, data_b, shares_b << embed)
                opened = lattice.open(a, b)
                assert (opened[ok] == (rounded + g)[ok]).all()


@given(st.integers(0, 2**32), st.sampled_from([41, 47]), st.integers(8, 16))
@settings(max_examples=60, deadline=None)
def test_release_is_data_plus_rounded_noise_on_the_real_ring(seed: int, scale_bits: int, fraction_bits: int) -> None:
    lattice = Lattice(2.5, fraction_bits, scale_bits)
    rng = Csprng(seed.to_bytes(32, "little"))
    k = lattice.dropped_bits
    x = (rng.words(200) >> np.uint64(63 - scale_bits - 4)).view(np.int64) - (1 << (scale_bits + 3))
    g = (rng.words(200) >> np.uint64(40)).view(np.int64) - (1 << 23)
    x_a, g_a = rng.words(200), rng.words(200)
    x_a[:4] = [0, 1, 2**64 - 1, 2**63]  # shares at the ring's edges
    x_b, g_b = x.view(np.uint64) - x_a, g.view(np.uint64) - g_a
    opened = lattice.open(lattice.release_share(0, g_a, x_a), lattice.release_share(1, g_b, x_b))
    r = (x_a & np.uint64((1 << k) - 1)).astype(np.int64)
    assert (opened == g - (-(x - r) // (1 << k))).all()


def test_negative_sums_are_lifted_to_the_centre() -> None:
    lattice = Lattice(1.0)
    values = np.array([-5, 5, -(1 << 30), 1 << 30, 0], np.int64)
    seed = bytes(range(32))
    zero = np.zeros(5, np.uint64)
    a = lattice.release_share(0, share(values, seed), zero)
    b = lattice.release_share(1, expand(seed, 5), zero)
    assert (lattice.open(a, b) == values).all()


def test_a_share_is_32_bytes_for_one_server_and_uniform_for_the_other() -> None:
    values = np.zeros(100_000, np.int64)
    a = share(values, bytes(range(32)))
    assert (a + expand(bytes(range(32)), 100_000) == 0).all()
    counts = np.bincount(a.view(np.uint8), minlength=256)
    chi2 = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    assert chi2 < 255 + 6 * (2 * 255) ** 0.5  # false alarm about 1e-8


def test_the_range_check_refuses_what_could_overflow_and_nothing_else() -> None:
    lattice = Lattice(1.0, 16, 41)
    limit = (1 << (lattice.opening_bits - 1)) - (16 << 16)
    most = (limit - 1) // (1 << 16)
    lattice.check_range(most, 1.0)
    with pytest.raises(RangeError, match="fewer fraction bits"):
        lattice.check_range(most + 1, 1.0)
    with pytest.raises(RangeError):
        lattice.check_range(1, 1e12)
    for bad in (float("nan"), float("inf"), -1.0):
        with pytest.raises(ConfigurationError):
            lattice.check_range(1, bad)


finite = st.floats(-1e300, 1e300, allow_nan=False)
hostile = st.one_of(finite, st.sampled_from([1e308, -1e308, 5e-324, 0.0, float("nan"), float("inf"), -float("inf")]))


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 9)), elements=hostile),
    st.floats(1e-3, 50),
    st.floats(1e-3, 50),
)
@settings(max_examples=300, deadline=None)
def test_an_encoded_record_never_exceeds_its_clip(records: np.ndarray, clip: float, sigma: float) -> None:
    lattice = Lattice(sigma, 8)
    limit = lattice.steps_within(clip)
    assert limit == int(Fraction(clip) / Fraction(lattice.step))
    if not 0 < limit < 2**26:
        with pytest.raises(RangeError):
            lattice.encode_records(records, limit)
        return
    encoded = lattice.encode_records(records, limit)
    for row, integers in zip(records, encoded, strict=True):
        assert sum(int(v) ** 2 for v in integers) <= limit**2
        if not np.isfinite(row).all():
            assert not integers.any()


def test_records_within_the_clip_are_only_rounded_towards_zero() -> None:
    lattice = Lattice(1.0, 16)
    records = np.array([[0.5, -0.25, 1e-9], [0.6, 0.8, 0.0]])
    encoded = lattice.encode_records(records, lattice.steps_within(1.0))
    assert encoded[0].tolist() == [1 << 15, -(1 << 14), 0]
    assert np.abs(encoded[1] - np.array([0.6, 0.8, 0]) * 2**16).max() <= 1.0


def test_encode_refuses_what_it_cannot_hold() -> None:
    lattice = Lattice(1.0)
    assert lattice.encode(np.array([0.99999 / 65536, -1.5 / 65536])).tolist() == [0, -1]
    with pytest.raises(RangeError, match="not finite"):
        lattice.encode(np.array([np.nan]))
    with pytest.raises(RangeError, match="2\\^53"):
        lattice.encode(np.array([1e12]))


@pytest.mark.parametrize(("sigma", "bits"), [(0.0, 16), (-1.0, 16), (float("inf"), 16), (1.0, 0), (1.0, 25)])
def test_impossible_lattices_are_refused(sigma: float, bits: int) -> None:
    with pytest.raises(ConfigurationError):
        Lattice(sigma, bits)
