"""The benchmark of noise."""

import pytest

from tests.support.command import answer, parley


@pytest.mark.slow
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


@pytest.mark.slow
def test_without_joint_noise_the_benchmark_sends_nothing() -> None:
    done = parley("bench", "noise", "--dimension", "5000", "--security", "malicious", "--no-baseline", "--json")
    assert done.returncode == 0, done.stderr
    result = answer(done)
    assert (result["security"], result["own"], result["acceptance"]) == ("malicious", 1.0, None)
    assert result["exchanges"] == 0
    assert result["bytes_per_gaussian_per_server"] < 1  # the two start and stop together
    assert parley("bench", "noise", "--security", "malicious", "--own", "0.5").returncode == 2


@pytest.mark.slow
def test_noise_under_audit_is_measured_beside_the_other_ways() -> None:
    done = parley("bench", "noise", "--security", "covert", "--lanes", "1024", "--dimension", "1000", "--json")
    assert done.returncode == 0, done.stderr
    result = answer(done)
    assert (result["security"], result["own"], result["audit"], result["lanes"]) == ("covert", 0.5, "1/8", 1024)
    turns = result["turns"]
    usual, same, covert, malicious = turns["ways"]
    assert [each["security"] for each in turns["ways"]] == ["semi-honest", "semi-honest", "covert", "malicious"]
    assert [each["lanes"] for each in turns["ways"]] == [8192, 1024, 1024, 1000]
    assert covert["batches"] == turns["rounds"] >= 12
    assert covert["audits"] > 0
    assert same["exchanges_per_batch"] == usual["exchanges_per_batch"] == 19
    assert 21 <= covert["exchanges_per_batch"] < 25
    assert (malicious["exchanges_per_batch"], malicious["bytes_per_gaussian_per_server"]) == (0, 0)
    assert 64 / 49 < turns["covert_over_semi_honest"]["bytes"] < 1.35  # what two audits leave of a batch; and its frame
    assert parley("bench", "noise", "--audit", "1/4").returncode == 2
