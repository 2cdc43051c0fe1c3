"""The commands as scripts and people call them."""

import json
import subprocess
import sys
from typing import Any

import pytest


def parley(*words: str, timeout: float = 120) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "parley.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def answer(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """The last line of standard output."""
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("words", [[], ["noise"], ["bench"], ["bench", "noise"], ["noise", "certificate"]])
def test_help_teaches(words: list[str]) -> None:
    done = parley(*words, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_the_certificate_has_the_promised_fields() -> None:
    done = parley("noise", "certificate", "--samples", "1e7", "--epsilon", "1", "--delta", "1e-5", "--json")
    assert done.returncode == 0, done.stderr
    result = answer(done)
    assert result["samples"] == 10**7
    assert result["epsilon"] == 1
    assert result["delta"] == 1e-5
    assert result["precision"] == "standard"
    assert result["epsilon_added"] <= 0.01
    assert result["delta_added"] <= 1e-7
    assert result["largest"] >= 8
    assert 0.99 < result["acceptance"] < 1
    assert "finite precision adds at most" in result["statement"]


def test_a_certificate_beyond_one_per_cent_says_so_by_its_exit_code() -> None:
    words = ["--samples", "1e9", "--epsilon", "1", "--delta", "1e-5", "--precision", "standard", "--json"]
    done = parley("noise", "certificate", *words)
    assert done.returncode == 1
    assert answer(done)["within_one_percent"] is False


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--samples", "0", "--epsilon", "1", "--delta", "1e-5"], "whole number"),
        (["--samples", "1.5", "--epsilon", "1", "--delta", "1e-5"], "whole number"),
        (["--samples", "nan", "--epsilon", "1", "--delta", "1e-5"], "whole number"),
        (["--samples", "100", "--epsilon", "-1", "--delta", "1e-5"], "epsilon is -1"),
        (["--samples", "100", "--epsilon", "1", "--delta", "2"], "delta is 2"),
        (["--samples", "1e14", "--epsilon", "1", "--delta", "1e-5"], "fewer rounds"),
    ],
)
def test_bad_questions_get_one_line_that_says_what_to_change(words: list[str], says: str) -> None:
    done = parley("noise", "certificate", *words)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert says in last
    assert "Traceback" not in done.stderr


def test_the_noise_benchmark_has_the_promised_fields() -> None:
    done = parley("bench", "noise", "--dimension", "123", "--json")
    assert done.returncode == 0, done.stderr
    result = answer(done)
    promised = {
        "dimension", "precision", "cover", "channel", "seconds", "gaussians_per_second",
        "bytes_per_gaussian_per_server", "exchanges", "acceptance", "base_ot_seconds", "cold_seconds", "aes_gb_s",
        "security", "own",
    }  # fmt: skip
    assert promised <= set(result)
    assert (result["security"], result["own"]) == ("semi-honest", 0.5)
    assert result["exchanges"] == 19
    assert result["bytes_per_gaussian_per_server"] < 2500
    assert result["baseline"]["bytes_per_gaussian_per_server"] > 2 * result["bytes_per_gaussian_per_server"]


def test_without_joint_noise_the_benchmark_sends_nothing() -> None:
    done = parley("bench", "noise", "--dimension", "5000", "--security", "malicious", "--no-baseline", "--json")
    assert done.returncode == 0, done.stderr
    result = answer(done)
    assert (result["security"], result["own"], result["acceptance"]) == ("malicious", 1.0, None)
    assert result["exchanges"] == 0
    assert result["bytes_per_gaussian_per_server"] < 1  # the two start and stop together
    assert parley("bench", "noise", "--security", "malicious", "--own", "0.5").returncode == 2


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
