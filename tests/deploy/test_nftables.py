"""Firewall rules for each role's machine: as nft understands them, and as a kernel carries them out."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.cut_off import Neighbour, can_be_made, namespace
from tests.support.edges import edges
from tests.support.programs import IN_CI, program, said

from parley.demo.provision import LISTEN

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "nftables"
ROLES = {"party": "party", "A": "aggregator-a", "B": "aggregator-b", "coordinator": "coordinator"}
NODES_USER, ANOTHER = 10001, 10002
LISTENER = """
import os, socket, sys
held = [socket.create_server((sys.argv[1], int(port))) for port in sys.argv[2:]]
print("ready", flush=True)
sys.stdin.read()
"""
KNOCK = """
import concurrent.futures.thread, encodings.idna, os, socket, sys  # all now: another user may not read this Python
os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
def open_at(port):
    try:
        socket.create_connection((sys.argv[2], int(port)), timeout=2).close()
        return port
    except OSError:
        return ""
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    print(*filter(None, pool.map(open_at, sys.argv[3:])))
"""
OTHERS = 8080
"""Some other service of the machine."""
PORTS = (*LISTEN.values(), OTHERS)


def text_of(role: str, address: str) -> str:
    """The rules where every other node is at this address, and the node's user is one without a name."""
    text = (FOLDER / f"{ROLES[role]}.nft").read_text()
    text = re.sub(r"^(define (?:parties|coordinator|aggregators|other) = ).*$", rf"\g<1>{address}", text, flags=re.M)
    return text.replace('define user = "parley"', f"define user = {NODES_USER}")


def served(role: str) -> set[int]:
    return {LISTEN[edge.port] for edge in edges() if role in edge.callees}


def dialled(role: str) -> set[int]:
    return {LISTEN[edge.port] for edge in edges() if role in edge.callers}


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    ip = program("ip", "iproute2")
    if not can_be_made():
        assert not IN_CI, "CI makes network namespaces"
        pytest.skip("only root makes a network namespace")
    with namespace(ip) as made:
        yield made


def test_there_are_rules_for_every_role() -> None:
    assert {path.stem for path in FOLDER.glob("*.nft")} == set(ROLES.values())


@pytest.mark.parametrize("role", ROLES)
def test_the_rules_open_what_the_architecture_says(role: str) -> None:
    chains = (FOLDER / f"{ROLES[role]}.nft").read_text().split("chain output")
    accepted = [{int(port) for port in re.findall(r"addr \S+ tcp dport (\d+) accept", chain)} for chain in chains]
    assert accepted == [served(role), dialled(role)]


@pytest.mark.parametrize("role", ROLES)
def test_nft_finds_nothing_wrong(tmp_path: Path, role: str) -> None:
    nft = program("nft", "nftables")
    if not can_be_made():
        assert not IN_CI, "CI makes network namespaces"
        pytest.skip("only root asks the kernel")
    rules = tmp_path / "parley.nft"
    rules.write_text(text_of(role, "192.0.2.1"))
    assert said(["unshare", "--net", nft, "-c", "-f", str(rules)]) == (0, "")
    rules.write_text(rules.read_text().replace("tcp dport", "tcp dprt"))
    assert said(["unshare", "--net", nft, "-c", "-f", str(rules)])[0] != 0


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_a_kernel_lets_through_what_the_architecture_says_and_nothing_else(
    neighbour: Neighbour, tmp_path: Path, role: str
) -> None:
    """The namespace is the machine; whoever knocks here is every other node at once."""
    nft = program("nft", "nftables")
    inside = [program("ip", "iproute2"), "netns", "exec", neighbour.name]
    rules = tmp_path / "parley.nft"
    rules.write_text(text_of(role, neighbour.here))
    assert said([*inside, nft, "-c", "-f", str(rules)]) == (0, "")
    assert reached(inside, neighbour, NODES_USER) == ({*PORTS}, {*PORTS}), "without rules"
    assert said([*inside, nft, "-f", str(rules)]) == (0, "")
    assert reached(inside, neighbour, NODES_USER) == ({*served(role), OTHERS}, dialled(role))
    assert reached(inside, neighbour, ANOTHER)[1] == {*PORTS}, "other users of the machine dial what they like"
    rules.write_text("flush ruleset\n" + text_of(role, "203.0.113.77"))
    assert said([*inside, nft, "-f", str(rules)]) == (0, "")
    assert reached(inside, neighbour, NODES_USER) == ({OTHERS}, set()), "who is at another address is nobody"


def reached(inside: list[str], neighbour: Neighbour, user: int) -> tuple[set[int], set[int]]:
    """Ports of the machine that are open to us, and ports of ours that its user reaches."""
    ports = [str(port) for port in PORTS]
    script = [sys.executable, "-c", LISTENER]
    with (
        subprocess.Popen(
            [*inside, *script, neighbour.there, *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as machine,
        subprocess.Popen([*script, neighbour.here, *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as here,
    ):
        for process in (machine, here):
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        with ThreadPoolExecutor(16) as pool:
            opened = pool.map(lambda port: is_open(neighbour.there, port), PORTS)
            incoming = {port for port, found in zip(PORTS, opened, strict=True) if found}
        code, text = said(
            [*inside, sys.executable, "-c", KNOCK, str(user), neighbour.here, *ports], environment=dict(os.environ)
        )
        assert code == 0, text
        for process in (machine, here):
            process.communicate()
    return incoming, {int(port) for port in text.split()}


def is_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


def test_the_page_has_these_connections_and_ports() -> None:
    section = (ROOT / "docs" / "deploy.md").read_text().split("## Ports and firewall")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")
    ]
    found = {(caller, callee, int(port)) for caller, callee, port, _ in rows[2:]}
    assert found == {
        (", ".join(sorted(each.callers)), ", ".join(sorted(each.callees)), LISTEN[each.port]) for each in edges()
    }
