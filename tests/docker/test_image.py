"""What `docker inspect` says of the images and of the nodes that run from them."""

import docker
import pytest

from parley.node.software import IMAGES as ROOMS_OF
from parley.node.software import source_digest
from tests.docker.engine import IMAGES, LABEL, NODES, PARTIES, Federation

pytestmark = pytest.mark.docker
MEGABYTE = 1_000_000
LARGEST = {"party": 350 * MEGABYTE, "server": 350 * MEGABYTE, "demo": 350 * MEGABYTE}
SERVERS_OF = {"lead": "lead", "north": "north", "south": "south"}
COMPILERS = ("gcc", "cc", "clang", "zig", "ld", "as", "make", "pip", "pip3", "apt-get", "dpkg", "perl")


def _text(said: object) -> str:
    assert isinstance(said, bytes)
    return said.decode().strip()


@pytest.mark.parametrize("target", list(IMAGES))
def test_an_image_is_small_and_says_what_it_was_made_from(
    client: "docker.DockerClient", images: None, target: str
) -> None:
    image = client.images.get(IMAGES[target])
    assert image.attrs["Size"] <= LARGEST[target]
    assert image.labels[LABEL] == source_digest(ROOMS_OF[target])
    assert image.labels["org.opencontainers.image.version"] != "unknown"
    configuration = image.attrs["Config"]
    assert configuration["User"] == "10001:10001"
    assert configuration["Entrypoint"] == ["parley"]
    assert configuration["Healthcheck"]["Test"][0] == "CMD"


@pytest.mark.parametrize("target", list(IMAGES))
def test_an_image_holds_no_compiler_and_nothing_that_installs_software(
    client: "docker.DockerClient", images: None, target: str
) -> None:
    words = " ".join(COMPILERS)
    script = (
        f"for each in {words}; do command -v $each; done; python -c 'import pip' 2>/dev/null && echo module pip; true"
    )
    found = client.containers.run(IMAGES[target], ["-c", script], entrypoint="sh", remove=True, network_mode="none")
    assert found == b""
    setuid = ["-c", "find / -xdev -type f -perm /6000 2>/dev/null; true"]
    assert client.containers.run(IMAGES[target], setuid, entrypoint="sh", remove=True, network_mode="none") == b""


@pytest.mark.parametrize("target", list(IMAGES))
def test_the_source_digest_of_what_is_installed_is_the_label(
    client: "docker.DockerClient", images: None, target: str
) -> None:
    command = ["-m", "parley.node.software"]
    found = client.containers.run(IMAGES[target], command, entrypoint="python", remove=True, network_mode="none")
    assert found.decode().strip() == client.images.get(IMAGES[target]).labels[LABEL]


@pytest.mark.parametrize("target", list(IMAGES))
def test_an_image_holds_the_rooms_of_its_node_and_a_partys_no_web_framework(
    client: "docker.DockerClient", images: None, target: str
) -> None:
    script = "import os, parley; print(*os.listdir(next(iter(parley.__path__)))); import importlib.util as u; "
    script += "print(*(x for x in ('starlette', 'uvicorn', 'jinja2', 'scipy', 'grpc') if u.find_spec(x)))"
    found = client.containers.run(IMAGES[target], ["-c", script], entrypoint="python", remove=True, network_mode="none")
    rooms, packages = found.decode().splitlines()
    assert set(rooms.split()) == set(ROOMS_OF[target])
    web = set() if target == "party" else {"starlette", "uvicorn", "jinja2"}
    assert set(packages.split()) == {"scipy", "grpc"} | web


@pytest.mark.parametrize("target", list(IMAGES))
def test_what_an_image_does_not_hold_is_said_in_one_sentence(
    client: "docker.DockerClient", images: None, target: str
) -> None:
    lacking = ["bench noise --dimension 8", "audit privacy", "reproduce a9a --data /tmp"]
    for words in lacking + ["simulate x.toml"] * (target == "party"):
        with pytest.raises(docker.errors.ContainerError) as told:
            client.containers.run(IMAGES[target], words, remove=True, network_mode="none", read_only=True)
        assert told.value.exit_status == 2
        (line,) = _text(told.value.stderr).splitlines()
        assert line.startswith("error: parley.")
        assert " is not in this image: " in line


@pytest.mark.parametrize(
    "words",
    [
        "party runs /node", "party status /node", "party populations /node", "schema study /node", "doctor /node",
        "pin list --folder /node/identity", "node show --folder /node/identity", "health /node",
        "ledger verify /node/state/ledger.sqlite", "audit verify /node",
    ],
)  # fmt: skip
def test_a_partys_operator_has_every_command_of_a_node(federation: Federation, words: str) -> None:
    """Over a node that runs; the doctor has its findings, and none of them is a missing room."""
    answer = federation.container("va").exec_run(["parley", *words.split()])
    said = _text(answer.output)
    assert answer.exit_code in ((0, 1) if words.startswith("doctor") else (0,)), said
    assert "not in this image" not in said
    assert "Traceback" not in said


def test_the_kernels_are_compiled_ahead(client: "docker.DockerClient", images: None) -> None:
    command = ["-c", "from parley.mpc import kernels"]
    client.containers.run(
        IMAGES["party"], command, entrypoint="python", remove=True, network_mode="none", read_only=True
    )


def test_a_node_starts_in_seconds(client: "docker.DockerClient", images: None) -> None:
    """Of a processor: how long the engine takes for a container says nothing about the image."""
    script = ["-c", "parley --help >/dev/null && times"]
    said = client.containers.run(
        IMAGES["server"], script, entrypoint="sh", remove=True, network_mode="none", read_only=True
    )
    user, system = said.decode().splitlines()[-1].split()  # of the shell's children: 0m1.23s
    minutes, seconds = zip(*(each.rstrip("s").split("m") for each in (user, system)), strict=True)
    assert 60 * sum(map(int, minutes)) + sum(map(float, seconds)) < 5


@pytest.mark.parametrize("name", NODES)
def test_a_node_has_no_rights_beyond_its_own(federation: Federation, name: str) -> None:
    attributes = federation.container(name).attrs
    host, configuration = attributes["HostConfig"], attributes["Config"]
    assert configuration["User"] == "10001:10001"
    assert host["ReadonlyRootfs"]
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert not host["Privileged"]
    assert host["PidMode"] == ""
    assert host["RestartPolicy"]["Name"] == "unless-stopped"
    assert set(host["Tmpfs"]) == {"/tmp"}
    assert not any("key" in each.lower() for each in configuration["Env"])


@pytest.mark.parametrize("name", NODES)
def test_a_node_can_write_its_state_and_nothing_else(federation: Federation, name: str) -> None:
    folders = "/ /node /node/identity /run/secrets /opt/parley /etc /node/state"
    script = f"for each in {folders}; do touch $each/x 2>/dev/null && echo $each; done; true"
    assert federation.run(name, "sh", "-c", script + "; rm -f /node/state/x").split() == ["/node/state"]
    status = federation.run(name, "sh", "-c", "grep -E '^(CapEff|CapBnd|NoNewPrivs|Uid)' /proc/1/status").split("\n")
    fields = dict(line.split(":\t", 1) for line in status if line)
    assert int(fields["CapEff"], 16) == 0
    assert int(fields["CapBnd"], 16) == 0
    assert fields["NoNewPrivs"] == "1"
    assert fields["Uid"].split()[0] == "10001"


@pytest.mark.parametrize("name", NODES)
def test_a_node_is_on_the_networks_of_its_edges_and_on_no_other(federation: Federation, name: str) -> None:
    found = federation.container(name).attrs["NetworkSettings"]["Networks"]
    edges = {full.removeprefix(f"{federation.project}_") for full in found}
    if name in PARTIES:
        assert edges == {f"{name}-lead", f"{name}-north", f"{name}-south"}
    elif name == "lead":
        assert edges == {*(f"{party}-lead" for party in PARTIES), "lead-north", "lead-south", "dashboard"}
    else:
        assert edges == {*(f"{party}-{name}" for party in PARTIES), f"lead-{name}", "north-south"}
    for full in found:
        network = federation.client.networks.get(full)
        assert network.attrs["Internal"] == (not full.endswith("_dashboard"))
        network.reload()
        assert len(network.attrs["Containers"]) == (1 if full.endswith("_dashboard") else 2)


def test_published_ports_are_on_loopback_only(federation: Federation) -> None:
    for name in NODES:
        for bindings in (federation.container(name).attrs["HostConfig"]["PortBindings"] or {}).values():
            assert name == "lead"
            assert {binding["HostIp"] for binding in bindings} == {"127.0.0.1"}


def test_a_stopped_node_ends_at_once(federation: Federation) -> None:
    container = federation.container("va")
    container.stop(timeout=30)
    container.reload()
    code = container.attrs["State"]["ExitCode"]
    container.start()
    federation.wait_ready("va")
    assert code == 0  # 137 where the engine had to kill it
