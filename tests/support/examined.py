"""Nodes for the doctor, and peers that do nothing but shake hands."""

import datetime as dt
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from parley.attacks.documents import write_party
from parley.federation.names import NodeName, Role
from parley.node import reachability
from parley.node.authority import ThrowAwayAuthority, Validity
from parley.node.credentials import NodeFolder
from parley.node.doctor import FAILED, Finding
from parley.node.transport import server_credentials
from parley.party.record_check import seal_node
from tests.support.documents import PARTY_POLICY, SCHEMA
from tests.support.until import GIVE_UP_SECONDS

PASTED = re.compile(r"`(parley|chmod|sudo|pip|nc|ss|getent|export|uname|\$\{EDITOR:-vi\}) [^`]+`")
AUTHORITY = ThrowAwayAuthority("cardio", dt.timedelta(days=90))


def node(
    folder: Path, role: Role, name: str, authority: ThrowAwayAuthority = AUTHORITY, validity: Validity | None = None
) -> Path:
    folder.mkdir(parents=True, mode=0o700)
    authority.install(folder / "identity", NodeName("cardio", role, name), validity)
    return folder


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """A coordinator and two aggregators that do nothing but shake hands."""
    found, servers = {}, []
    for role, name in ((Role.coordinator, "lead"), (Role.aggregator, "north"), (Role.aggregator, "south")):
        home = node(tmp_path_factory.mktemp("peers") / name, role, name)
        server = grpc.server(ThreadPoolExecutor(1))
        found[name] = server.add_secure_port("127.0.0.1:0", server_credentials(NodeFolder(home / "identity")))
        server.start()
        servers.append(server)
    yield found
    for server in servers:
        server.stop(0)


@pytest.fixture
def party(tmp_path: Path, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> Path:
    patient(monkeypatch)
    home = node(tmp_path / "hospital-c", Role.party, "hospital-c")
    (home / "policy.toml").write_text(PARTY_POLICY)
    (home / "records.csv").write_text(
        "age,pulse,sick\n" + "".join(f"{20 + n % 70},{60 + n % 50},{n % 2}\n" for n in range(100))
    )
    write_party(home, {name: ports[name] for name in ("north", "south")}, ports["lead"])
    (home / "schema.toml").write_text(SCHEMA.replace("300", "100"))
    assert seal_node(home).fits
    return home


def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer in this process may be slow on a busy machine, and is no less reached."""
    for name in ("CONNECT_SECONDS", "FIRST_BYTES_SECONDS"):
        monkeypatch.setattr(reachability, name, GIVE_UP_SECONDS)


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    """Whatever fails has a fix with something in it that can be pasted: a command between backticks."""
    failed = [finding for finding in findings if finding.state == FAILED]
    assert [finding for finding in failed if not PASTED.search(finding.fix)] == []
    return {finding.check: finding for finding in findings}


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
