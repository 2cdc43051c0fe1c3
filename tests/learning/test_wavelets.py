"""Coefficients are kymatio's, and a plane's depend on that plane alone."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.learning.wavelets import Plan, channels, plan, scattered, scattered_by, scattered_in_numpy
from parley.mpc import waves

VECTORS = Path(__file__).parent.parent / "vectors" / "scattering.npz"
UNIT = 2.0**-20
"""As tests/vectors/make_scattering.py keeps them."""
WAYS = ["numpy", *waves.builds()]
Singles = NDArray[np.float32]


def by(way: str, planes: Singles, found: Plan) -> Singles:
    if way == "numpy":
        return scattered_in_numpy(planes, found)
    return scattered_by(way, planes, found)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("images", "scales", "angles"), [("digits", 2, 8), ("colours", 2, 8), ("odd", 1, 6), ("odd", 3, 4)]
)
def test_coefficients_are_kymatios(way: str, images: str, scales: int, angles: int) -> None:
    held = np.load(VECTORS)
    planes = (held[images] / 255).astype(np.float32)
    planes = planes.reshape(-1, *planes.shape[-2:])
    due = held[f"{images} {scales} {angles}"] * UNIT
    found = by(way, planes, plan(*planes.shape[1:], scales, angles))
    assert found.shape == due.shape == (len(planes), *plan(*planes.shape[1:], scales, angles).shape)
    assert due.shape[1] == channels(scales, angles)
    assert np.abs(found - due).max() < 1e-5
    assert np.abs(due).max() > 0.2


@pytest.mark.parametrize("way", WAYS)
def test_a_plane_is_transformed_by_itself(way: str) -> None:
    planes = np.random.default_rng(3).random((100, 16, 20), np.float32)
    one = plan(16, 20, 2, 4)
    found = by(way, planes, one)
    for index in (0, 15, 16, 63, 64, 99):
        assert np.array_equal(by(way, planes[index : index + 1], one)[0], found[index])
    for value in (0.5, np.nan, np.inf, 1e38, 1e-42):
        planes[1:] = value
        with np.errstate(all="ignore"):
            assert np.array_equal(by(way, planes, one)[0], found[0])
    assert by(way, planes[:0], one).shape == (0, 25, 4, 5)


def test_all_builds_give_the_same_bits() -> None:
    """Of sides with every kind of factor: 2, 3, 4, 5 and larger primes."""
    assert "portable" in WAYS, "nothing was compiled for this machine"
    for shape in ((28, 32, 2, 8), (23, 37, 2, 3), (44, 64, 3, 2), (16, 18, 1, 5), (80, 40, 4, 2)):
        found, (height, width, _, _) = plan(*shape), shape
        planes = np.random.default_rng(5).random((18, height, width), np.float32)
        first, *others = [by(way, planes, found) for way in waves.builds()]
        assert all(np.array_equal(first, each) for each in others)
        assert np.abs(first - scattered_in_numpy(planes, found)).max() < 1e-6


def test_a_plane_of_one_value_has_no_waves() -> None:
    found = scattered(np.full((1, 32, 32), 0.5, np.float32), plan(32, 32, 2, 8))[0]
    assert np.abs(found[0] - 0.5).max() < 1e-3
    assert np.abs(found[1:]).max() < 1e-6


def test_planes_need_not_lie_side_by_side() -> None:
    planes = np.random.default_rng(6).random((5, 3, 16, 16), np.float32)
    apart = planes[:, 1]
    assert np.array_equal(scattered(apart, plan(16, 16, 2, 8)), scattered(apart.copy(), plan(16, 16, 2, 8)))
