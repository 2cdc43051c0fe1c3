"""Who reaches whom, tried from inside of the containers, and whose keys lie where."""

import hashlib
import json

import pytest

from tests.docker.engine import AGGREGATORS, COORDINATOR, NODES, PARTIES, Federation

pytestmark = pytest.mark.docker
COORDINATORS, SHARE, CONTROL, PEER = 7400, 7401, 7402, 7403
PORTS = (COORDINATORS, SHARE, CONTROL, PEER, 7480)
KNOCK = """
import concurrent.futures, json, socket, sys
def knock(address):
    try:
        socket.create_connection(tuple(address), timeout=1.5).close()
        return True
    except OSError:
        return False
addresses = json.load(sys.stdin)
with concurrent.futures.ThreadPoolExecutor(64) as pool:
    print(json.dumps([address for address, open in zip(addresses, pool.map(knock, addresses)) if open]))
"""
QUICKLY = "RES_OPTIONS=timeout:1 attempts:1"
RESOLVE = """
import socket, sys
for each in sys.argv[1:]:
    try:
        print(socket.gethostbyname(each))
    except OSError:
        pass
"""
ALLOWED = {
    **{party: {(COORDINATOR, COORDINATORS), *((aggregator, SHARE) for aggregator in AGGREGATORS)} for party in PARTIES},
    "lead": {(aggregator, CONTROL) for aggregator in AGGREGATORS},
    "north": {("south", PEER)},
    "south": set(),
}


def addresses(federation: Federation) -> dict[str, list[str]]:
    found = {}
    for name in NODES:
        networks = federation.container(name).attrs["NetworkSettings"]["Networks"]
        found[name] = [settings["IPAddress"] for settings in networks.values()]
    return found


@pytest.mark.parametrize("name", NODES)
def test_a_node_reaches_exactly_the_ports_that_it_has_to_dial(federation: Federation, name: str) -> None:
    where = addresses(federation)
    owner = {address: other for other, known in where.items() for address in known}
    tried = [[address, port] for address, other in owner.items() if other != name for port in PORTS]
    opened = json.loads(federation.run(name, "python", "-c", KNOCK, stdin=json.dumps(tried)))
    assert {(owner[address], port) for address, port in opened} == ALLOWED[name]


@pytest.mark.parametrize("name", [*PARTIES, *AGGREGATORS])
def test_nothing_leads_out_to_the_world(federation: Federation, name: str) -> None:
    world = [["1.1.1.1", 443], ["8.8.8.8", 53]]
    assert json.loads(federation.run(name, "python", "-c", KNOCK, stdin=json.dumps(world))) == []


@pytest.mark.parametrize("name", PARTIES)
def test_a_party_does_not_even_know_the_names_of_others(federation: Federation, name: str) -> None:
    others = [each for each in PARTIES if each != name]
    assert federation.run(name, "env", QUICKLY, "python", "-c", RESOLVE, *others, "control.north", "peer.south") == ""


def test_no_container_holds_the_key_of_another(federation: Federation) -> None:
    script = (
        "find / -xdev -name '*.key' -type f 2>/dev/null; find /run/secrets /node -type f 2>/dev/null | sort -u | "
        "xargs grep -l 'PRIVATE KEY' 2>/dev/null; readlink -f /node/identity/current/node.key"
    )
    owners: dict[str, str] = {}
    for name in NODES:
        found = {line for line in federation.run(name, "sh", "-c", script).split() if line}
        assert found, name
        for path in found:  # a renewed node has its older keys too
            assert path.startswith("/node/identity/identities/"), (name, path)
            digest = hashlib.sha256(federation.run(name, "cat", path).encode()).hexdigest()
            assert owners.setdefault(digest, name) == name, path
        mounts = federation.container(name).attrs["Mounts"]
        foreign = [other for other in NODES if other != name]
        assert not [mount for mount in mounts for other in foreign if f"/{other}/" in str(mount.get("Source", ""))], (
            name
        )
        for mount in mounts:
            assert not mount["RW"] or mount["Destination"] in ("/node/state", "/node/models")
    assert set(owners.values()) == set(NODES)


def test_a_party_holds_its_own_records_and_no_others(federation: Federation) -> None:
    for party in PARTIES:
        assert federation.run(party, "ls", "/node/data").split() == [f"{party}.csv"]
    assert federation.run("lead", "ls", "/node/data").split() == ["test.csv"]
