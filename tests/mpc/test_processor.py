"""What this processor says of itself, beside what Linux says of it; and what is refused where it can do less."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from parley.mpc import kernels, processor, products
from parley.mpc.errors import ConfigurationError
from parley.mpc.processor import FEATURES, of_build, processor_features


@pytest.mark.skipif(platform.machine() != "x86_64", reason="Linux names the features of other processors otherwise")
def test_the_processor_says_what_linux_says_of_it() -> None:
    text = Path("/proc/cpuinfo").read_text()
    flags = next(set(line.split(":", 1)[1].split()) for line in text.splitlines() if line.startswith("flags"))
    assert processor_features() == flags & set(FEATURES)
    assert processor_features() >= kernels.BASELINE_FEATURES


def test_a_machine_that_nothing_was_compiled_for_has_no_features(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(processor, "native", nowhere)
    assert processor_features.__wrapped__() == frozenset()


def test_without_aes_instructions_noise_is_refused_and_the_rest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said once, with what works there; the sums of a party are float64's, which are the same integers."""
    monkeypatch.setattr(kernels, "processor_features", lambda: frozenset({"sse4_1"}))
    monkeypatch.setattr(products, "processor_features", lambda: frozenset({"sse4_1"}))
    with pytest.raises(ConfigurationError, match=r"lacks aes, pclmulqdq\): run aggregators.*on one that has them"):
        kernels.best_variant()
    assert products._library.__wrapped__() is None


@pytest.mark.parametrize("name", ["clip", "waves"])
def test_without_wide_instructions_the_portable_build_is_taken(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(processor, "processor_features", frozenset)
    assert of_build.__wrapped__(name, "portable") is not None
    assert of_build.__wrapped__(name, "avx2") is None
    assert of_build.__wrapped__(name, "avx512") is None


def test_importing_the_kernels_loads_none_of_them() -> None:
    """A laptop that only simulates may have nothing that they need."""
    code = """
from parley.mpc import processor
processor.native = lambda name: 1 / 0
import parley.mpc.kernels, parley.mpc.products, parley.mpc.session, parley.study.simulation
"""
    subprocess.run([sys.executable, "-c", code], check=True)
