"""The benchmark of noise."""

from tests.support.command import answer, parley


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
