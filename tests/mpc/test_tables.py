"""The shipped tables are what the builder builds, and have the properties that the protocol relies on."""

import json
from pathlib import Path

import numpy as np
import pytest

from parley.mpc.errors import ConfigurationError
from parley.mpc.law import pairs_of_level, row_probability
from parley.mpc.tables import FORMATS, Cover, Precision, check_precision, load, rise
from tests.support.lanes import PRESETS

VECTORS = Path(__file__).parent.parent / "vectors"


@pytest.mark.parametrize(("cover", "precision"), PRESETS)
def test_digests_are_pinned(cover: Cover, precision: Precision) -> None:
    pinned = json.loads((VECTORS / "tables.json").read_text())
    assert load(cover, precision).digest.hex() == pinned[f"{cover}-{precision}"]


@pytest.mark.parametrize(("cover", "precision"), PRESETS)
def test_every_entry_stays_in_its_range(cover: Cover, precision: Precision) -> None:
    tables = load(cover, precision)
    form = tables.format
    for level in range(form.tail_levels + 1):
        pairs = pairs_of_level(tables, level)
        assert pairs.threshold.min() >= 0
        assert pairs.threshold.max() <= 1 << form.threshold_bits
        assert pairs.ratio.max() < 16 << form.ratio_fraction_bits
        assert pairs.ratio.min() > 0


@pytest.mark.parametrize(("cover", "precision"), PRESETS)
def test_probabilities_of_all_rows_add_up_to_one(cover: Cover, precision: Precision) -> None:
    tables = load(cover, precision)
    form = tables.format
    unflagged = len(tables.head) - int(tables.field(tables.head, "flag").sum())
    total = unflagged * row_probability(tables, 0)
    for level in range(1, form.tail_levels + 1):
        total += tables.tail.shape[1] * row_probability(tables, level)
    assert total == 1


@pytest.mark.parametrize(("cover", "precision"), PRESETS)
def test_rows_describe_the_region_of_the_ratio_of_uniforms(cover: Cover, precision: Precision) -> None:
    """With u = sqrt(exp(-x^2 / 2)) at the edge x = T W: |v| = h(u) there, and v / u = x, to the precision of a box."""
    tables = load(cover, precision)
    form = tables.format
    rows = tables.head[tables.field(tables.head, "ratio") > 0]
    bits = form.position_bits
    threshold = tables.field(rows, "threshold")[:, None] + rise(tables.field(rows, "threshold_slope"), bits)
    ratio = tables.field(rows, "ratio")[:, None] + rise(tables.field(rows, "ratio_slope"), bits)
    edge = threshold / 2**form.threshold_bits * ratio / 2**form.ratio_fraction_bits
    u = np.exp(-(edge**2) / 4)  # x^2 = -4 ln u
    # u falls through the box from m = 0 on, by equal steps.
    steps = np.diff(u, axis=1)
    assert (np.abs(u[:, 0] - u[:, -1] + steps.mean(axis=1) * (steps.shape[1])) < 1e-9).all()
    assert (steps.mean(axis=1) < 0).all()
    assert np.abs(u - np.linspace(u[:, 0], u[:, -1], u.shape[1], axis=1)).max() < 2e-5
    area = (u[:, 0] - u[:, -1]) * (1 << bits) / ((1 << bits) - 1) * ratio.mean(axis=1) * u.mean(axis=1)
    assert np.abs(area / np.median(area) - 1).max() < 0.02


def test_unknown_names_are_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match="strips, rectangle"):
        check_precision("circles", "standard")
    with pytest.raises(ConfigurationError, match="standard, high"):
        check_precision("strips", "low")
    assert set(FORMATS) == {"standard", "high"}
