"""`parley node`, from request to rotation."""

from pathlib import Path

import pytest

from parley.node import trust
from parley.node.authority import ThrowAwayAuthority
from parley.node.node_file import read_node
from parley.node.pins import key_text, parse_key
from tests.support.command import answer, parley
from tests.support.pinned import LEAD, NODE, NORTH, PARTY, SOUTH, alone


@pytest.mark.slow
def test_a_node_from_request_to_rotation_by_its_commands(tmp_path: Path) -> None:
    ca, home = str(tmp_path / "ca"), tmp_path / "hospital-a"
    folder = str(home / "identity")
    home.mkdir()
    (home / "node.toml").write_text(NODE)
    root = answer(parley("ca", "init", "cardio", "--folder", ca, "--json"))
    asked = answer(parley("node", "request", PARTY.uri, "--folder", folder, "--json"))
    others = ThrowAwayAuthority("cardio")
    pins = {name: key_text(others.issue_as(name).pin) for name in (LEAD, NORTH, SOUTH)}

    def approve(request: dict[str, str]) -> str:
        out = str(tmp_path / "approved.pem")
        words = ("ca", "approve", request["request"], "--fingerprint", request["fingerprint"])
        answer(parley(*words, "--out", out, "--folder", ca, "--json"))
        return out

    done = parley(
        "node", "install", approve(asked), "--authority", root["fingerprint"], "--folder", folder,
        "--pin", f"coordinator/lead={pins[LEAD]}", "--pin", f"{NORTH}={pins[NORTH].upper().replace(':', ' ')}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"not pinned   {SOUTH}: parley pin add {SOUTH} PIN --folder {folder}" in done.stdout
    assert f"pin          {asked['pin']}" in done.stdout
    refused = parley("party", "run", str(home))
    assert refused.returncode == 2
    assert f"`parley pin add {SOUTH} PIN --node {home}`" in refused.stderr
    missing = parley("pin", "add", "aggregator/south", "--folder", folder)
    assert (missing.returncode, "give it as `parley node show` prints it there" in missing.stderr) == (2, True)
    assert answer(parley("pin", "add", "aggregator/south", pins[SOUTH], "--folder", folder, "--json"))["former"] is None
    listed = answer(parley("pin", "list", "--folder", folder, "--json"))["pins"]
    assert {each["node"]: each["pin"] for each in listed} == {name.uri: pin for name, pin in pins.items()}
    assert (home / "identity" / "pins.toml").stat().st_mode & 0o777 == 0o600
    trust.require(read_node(home))

    renewed = answer(parley("node", "renew", "--folder", folder, "--json"))
    assert (renewed["pin"], renewed["rotation"]) == (asked["pin"], None)
    answer(parley("node", "install", approve(renewed), "--folder", folder, "--json"))
    peer = alone(tmp_path / "peer", others, NORTH)
    trust.add(peer, PARTY, parse_key(asked["pin"]))
    rotated = answer(parley("node", "rotate", "--folder", folder, "--json"))
    assert rotated["pin"] != asked["pin"]
    answer(parley("node", "install", approve(rotated), "--folder", folder, "--json"))
    where = ("--folder", str(peer.path))
    wrong = parley("pin", "accept", rotated["rotation"], "--pin", asked["pin"], *where)
    assert (wrong.returncode, "their old key may be stolen" in wrong.stderr) == (2, True)
    taken = answer(parley("pin", "accept", rotated["rotation"], "--pin", rotated["pin"], *where, "--json"))
    assert (taken["pin"], taken["former"]) == (rotated["pin"], asked["pin"])
    taken = answer(parley("pin", "accept", rotated["rotation"], "--pin", rotated["pin"], "--now", *where, "--json"))
    assert (taken["pin"], taken["former"]) == (rotated["pin"], None)
    assert answer(parley("pin", "remove", "party/hospital-a", *where, "--json")) == {"removed": PARTY.uri}
    assert parley("pin", "remove", "party/hospital-a", *where).returncode == 2
