"""The authority and its nodes by their commands."""

from pathlib import Path

import pytest

from tests.support.command import answer, parley
from tests.support.enrolment import AGGREGATOR


@pytest.mark.slow
def test_the_commands_take_a_node_from_request_to_renewal(tmp_path: Path) -> None:
    ca, node, out = str(tmp_path / "ca"), str(tmp_path / "node"), str(tmp_path / "north.pem")
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery\n")
    secret.chmod(0o600)
    unlock = ["--folder", ca, "--passphrase-file", str(secret)]
    root = answer(parley("ca", "init", "cardio", *unlock, "--json"))
    assert root["encrypted"]
    asked = answer(parley("node", "request", AGGREGATOR.uri, "--folder", node, "--json"))
    assert answer(parley("node", "show", "--folder", node, "--json"))["fingerprint"] == asked["fingerprint"]
    assert answer(parley("ca", "inspect", asked["request"], "--json"))["fingerprint"] == asked["fingerprint"]
    refused = parley("ca", "approve", asked["request"], "--fingerprint", "00", "--out", out, *unlock)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: the fingerprint given is not that of this request")
    assert not Path(out).exists()
    approve = ["ca", "approve", asked["request"], "--out", out, *unlock, "--json"]
    given = answer(parley(*approve, "--fingerprint", asked["fingerprint"]))
    shown = answer(parley("node", "install", out, "--authority", root["fingerprint"], "--folder", node, "--json"))
    assert shown["fingerprint"] == given["fingerprint"]
    assert shown["identity"] == AGGREGATOR.uri
    again = answer(parley("node", "rotate", "--folder", node, "--json"))
    both = answer(parley("node", "show", "--folder", node, "--json"))
    assert (both["fingerprint"], both["pending_fingerprint"]) == (given["fingerprint"], again["fingerprint"])
    assert len((tmp_path / "ca" / "issued.jsonl").read_text().splitlines()) == 1
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or path.suffix != ".key" or path.stat().st_mode & 0o077 == 0
