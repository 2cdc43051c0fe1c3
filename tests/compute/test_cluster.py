"""Records go to a cluster over TLS and with a token, or not at all."""

from dataclasses import replace
from pathlib import Path

import pytest

from parley.compute.cluster import Cluster
from parley.compute.errors import ComputeError


def theirs(folder: Path) -> Cluster:
    for name in ("token", "crt", "key", "ca"):
        (folder / name).write_text("t" * 64)
        (folder / name).chmod(0o600)
    return Cluster(2, "head.example.org:6379", folder / "token", folder / "crt", folder / "key", folder / "ca")


def test_an_operators_cluster_has_tls_and_a_token(tmp_path: Path) -> None:
    cluster = theirs(tmp_path)
    cluster.check()
    found = cluster.environment(tmp_path)
    assert found["RAY_USE_TLS"] == "1"
    assert found["RAY_AUTH_MODE"] == "token"
    assert found["RAY_AUTH_TOKEN_PATH"] == str(tmp_path / "token")
    for name in ("token", "certificate", "key", "authority"):
        with pytest.raises(ComputeError, match=f"{name} is missing"):
            replace(cluster, **{name: None}).check()  # type: ignore[arg-type]


def test_what_others_can_read_protects_nothing(tmp_path: Path) -> None:
    cluster = theirs(tmp_path)
    for name in ("token", "key"):
        (tmp_path / name).chmod(0o644)
        with pytest.raises(ComputeError, match="chmod 600"):
            cluster.check()
        (tmp_path / name).chmod(0o600)
    (tmp_path / "token").write_text("short")
    with pytest.raises(ComputeError, match="shorter than 32"):
        cluster.check()
    (tmp_path / "ca").unlink()
    with pytest.raises(ComputeError, match="is no file"):
        cluster.check()


def test_a_local_one_draws_a_token_and_takes_nothing_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:6379")
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("https_proxy", "http://elsewhere:3128")
    tokens = set()
    for _ in range(2):
        found = Cluster().environment(tmp_path)
        assert found["RAY_AUTH_MODE"] == "token"
        assert (found["OPENBLAS_CORETYPE"], found["OPENBLAS_NUM_THREADS"]) == ("Haswell", "1")
        assert not {"RAY_ADDRESS", "PGPASSWORD", "https_proxy"} & set(found)
        assert found["RAY_USAGE_STATS_ENABLED"] == "0"
        token = Path(found["RAY_AUTH_TOKEN_PATH"])
        assert token.stat().st_mode & 0o777 == 0o600
        tokens.add(token.read_text())
    assert len(tokens) == 2
    assert all(len(token) >= 64 for token in tokens)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"workers": 0}, "workers is 0"),
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"token": Path("t")}, "with an address"),
    ],
)
def test_what_makes_no_sense_is_said(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ComputeError, match=said):
        replace(Cluster(), **changes).check()  # type: ignore[arg-type]
