"""Samples of the real protocol are normal; the same suite rejects samplers that are broken on purpose."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.mpc.law import acceptance
from parley.mpc.sampler import Sampler
from parley.mpc.tables import Cover, Precision, Tables, load
from tests.support.statistics import CHECKS, LEVEL, Samples, failures
from tests.support.two import dealt_sampler, run_both


def dumped(folder: Path, *options: str) -> tuple[Samples, dict[str, Any]]:
    """Samples from the shares that two separately started processes hold in their pools."""
    file = folder / "shares.npz"
    command = [
        sys.executable,
        "-m",
        "parley.cli.main",
        "bench",
        "noise",
        "--json",
        "--no-baseline",
        "--dump",
        str(file),
    ]
    done = subprocess.run([*command, *options], check=True, capture_output=True, text=True, timeout=500)
    with np.load(file) as data:
        assert data["share_a"].dtype == data["share_b"].dtype == np.uint64
        x = (data["share_a"] + data["share_b"]).view(np.int64) / 2.0 ** int(data["scale"])
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return x, report


def check_acceptance(report: dict[str, Any], count: int, cover: Cover, precision: Precision) -> None:
    exact = float(acceptance(load(cover, precision)))
    lanes = count / report["acceptance"]
    assert abs(report["acceptance"] - exact) < 6 * (exact * (1 - exact) / lanes) ** 0.5  # false alarm 2e-9


@pytest.mark.parametrize(
    ("channel", "cover", "precision"),
    [
        ("grpc", "strips", "standard"),
        pytest.param("socket", "rectangle", "standard", marks=pytest.mark.slow),
        pytest.param("socket", "strips", "high", marks=pytest.mark.slow),
    ],
)
def test_a_hundred_thousand_samples_of_two_processes_are_normal(
    tmp_path: Path, channel: str, cover: Any, precision: Any
) -> None:
    options = ["--channel", channel, "--cover", cover, "--precision", precision, "--dimension", "15000"]
    x, report = dumped(tmp_path, *options)
    assert len(x) >= 100_000
    assert not failures(x)
    check_acceptance(report, len(x), cover, precision)


@pytest.mark.slow
def test_two_million_samples_of_two_processes_are_normal(tmp_path: Path) -> None:
    """Of as many pairs of processes as it takes, each with a session of its own."""
    pieces: list[Samples] = []
    while sum(map(len, pieces)) < 2_000_000:
        x, report = dumped(tmp_path, "--dimension", "62000", "--seconds", "20")
        check_acceptance(report, len(x), "strips", "standard")
        pieces.append(x)
    assert not failures(np.concatenate(pieces))


class Broken(Sampler):
    """A sampler with a fault in the protocol itself."""

    def __init__(self, good: Sampler, accept_all: bool = False, positive: bool = False) -> None:
        self.__dict__.update(good.__dict__)
        self._accept_all, self._positive = accept_all, positive

    def batch(self, lanes: int) -> Any:
        view = yield from self.view(lanes)
        keep = np.ones(len(view.accepted), bool) if self._accept_all else view.accepted.astype(bool)
        product = view.product
        if self._positive:  # undo the sign, as if its bit were stuck: needs the other server's sign bits
            (theirs,) = yield [view.signs]
            turned = (view.signs ^ theirs).astype(bool)
            product = np.where(turned, np.uint64(0) - product, product)
        return product[keep]


def changed_tables(change: Callable[[Tables, Any, Any], None], cover: Cover = "strips") -> Tables:
    good = load(cover, "standard")
    head, tail = good.head.copy(), good.tail.copy()
    change(good, head, tail)
    return Tables(good.cover, good.precision, good.format, head, tail)


def wider(tables: Tables, head: Any, tail: Any) -> None:
    """The standard deviation off by half a percent."""
    start, width = tables.format.fields()["ratio"]
    for rows in (head, *tail):
        ratios = tables.field(rows, "ratio") * 1005 // 1000
        bits = np.unpackbits(rows, axis=1, bitorder="little")
        bits[:, start : start + width] = ratios[:, None] >> np.arange(width) & 1
        rows[:] = np.packbits(bits, axis=1, bitorder="little")


def without_a_level(tables: Tables, head: Any, tail: Any) -> None:
    tail[1] = 0


def unchanged(tables: Tables, head: Any, tail: Any) -> None:
    pass


def dealt(make: Callable[[int, int], Sampler], batches: int) -> Samples:
    """Samples of a sampler on dealt transfers, in this process."""

    def end(role: int, channel: Any) -> Any:
        pieces = []
        for seed in range(batches):
            channel.next_batch()
            pieces.append(channel.run(make(role, seed).batch(8192)))
        return np.concatenate(pieces)

    a, b = run_both(end, deadline_seconds=120)
    return np.asarray((a + b).view(np.int64) / 2.0**41)


VARIANTS: dict[str, tuple[Callable[[int, int], Sampler], set[str]]] = {
    "deviation off by 0.5 %": (
        lambda role, seed: dealt_sampler(role, changed_tables(wider), seed), {"variance", "kurtosis"},
    ),
    "one tail level missing": (
        lambda role, seed: dealt_sampler(role, changed_tables(without_a_level), seed), {"tail beyond 3", "variance"},
    ),
    "sign bit stuck": (
        lambda role, seed: Broken(dealt_sampler(role, load("strips", "standard"), seed), positive=True),
        {"mean", "Kolmogorov-Smirnov"},
    ),
    "rectangle accepted without the test": (
        lambda role, seed: Broken(dealt_sampler(role, load("rectangle", "standard"), seed), accept_all=True),
        {"chi-square, 1,000 bins", "Kolmogorov-Smirnov"},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_suite_rejects_a_broken_sampler(variant: str) -> None:
    make, expected = VARIANTS[variant]
    failed = failures(dealt(make, 160))
    assert expected <= failed.keys()


@pytest.mark.slow
def test_the_same_harness_passes_the_unbroken_sampler() -> None:
    assert not failures(dealt(lambda role, seed: dealt_sampler(role, changed_tables(unchanged), seed), 160))


def test_the_level_is_what_the_module_says() -> None:
    assert len(CHECKS) * LEVEL <= 1.2e-8
