"""The commands as scripts and people call them."""

import subprocess
import sys

import pytest

from tests.support.command import answer, parley


@pytest.mark.parametrize("words", [[], ["noise"], ["bench"], ["bench", "noise"], ["noise", "certificate"]])
def test_help_teaches(words: list[str]) -> None:
    done = parley(*words, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout


@pytest.mark.slow
def test_the_aggregation_benchmark_has_the_promised_fields() -> None:
    done = parley("bench", "aggregate", "--parties", "5", "--dimension", "123", "--json")
    assert done.returncode == 0, done.stderr
    result = answer(done)
    assert {"parties", "dimension", "online_seconds", "total_seconds", "bytes_per_server"} <= set(result)
    assert 0.5 < result["noise_standard_deviation"] < 1.6  # 123 samples: 7 deviations


@pytest.mark.parametrize("words", [["bench", "noise", "--dimension", "0"], ["bench", "noise", "--cover", "circles"]])
def test_bad_options_are_refused(words: list[str]) -> None:
    assert parley(*words).returncode == 2


def test_a_dump_into_a_missing_folder_is_refused_before_anything_runs() -> None:
    done = parley("bench", "noise", "--dump", "/does/not/exist/shares.npz")
    assert done.returncode == 2
    assert "does not exist" in done.stderr


@pytest.mark.slow
def test_the_command_starts_without_the_accounting_extra() -> None:
    """A bare installation has no scipy: help and what needs none must work, and the rest say what to install."""
    block = "import sys; sys.modules.update(scipy=None, dp_accounting=None)"
    start = f"{block}; sys.argv = ['parley', *sys.argv[1:]]; from parley.cli.main import main; main()"
    for words in (["--help"], ["noise", "--help"], ["bench", "--help"], ["ledger", "--help"]):
        done = subprocess.run([sys.executable, "-c", start, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [sys.executable, "-c", start, "audit", "privacy"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
