"""A federation under systemd and all of its hardening: seven units in one container, whose first process is systemd.

The container stands for seven machines: each listener has an address of loopback to itself.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial

import docker
import pytest
from docker.models.containers import Container

from tests.docker.conftest import own_network
from tests.docker.engine import AGGREGATORS, COORDINATOR, IMAGES, PARTIES, ROOT, RUN_SECONDS, wait
from tests.support.until import GIVE_UP_SECONDS

pytestmark = pytest.mark.docker
IMAGE = "parley-test/systemd"
DOCKERFILE = f"""
ARG BASE=python:3.11-slim-bookworm
FROM {IMAGES["demo"]} AS demo
FROM {IMAGES["party"]} AS party
FROM ${{BASE}}
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends systemd dbus \\
    && rm -rf /var/lib/apt/lists/*
COPY --from=demo /opt/parley /opt/parley
COPY --from=party /opt/parley /opt/parley
COPY systemd /etc/systemd/system
COPY systemd/parley.sysusers /etc/sysusers.d/parley.conf
CMD ["/lib/systemd/systemd"]
"""
NODES = "/var/lib/parley"
PREPARE = f"""
set -e
export PATH=/opt/parley/bin:$PATH
systemd-sysusers
install -d -o parley -g parley {NODES}
parley provision {NODES} --owner $(id -u parley)
port=9464  # one machine plays seven: each node's metrics get a port of their own
for each in {NODES}/*/node.toml; do sed -i "s/127.0.0.1:9464/127.0.0.1:$port/" $each; port=$((port + 1)); done
for each in {" ".join(PARTIES)}; do runuser -u parley -- parley schema check {NODES}/$each; done
"""
UNITS = {
    **{name: f"parley-aggregator@{name}.service" for name in AGGREGATORS},
    COORDINATOR: f"parley-coordinator@{COORDINATOR}.service",
    **{name: f"parley-party@{name}.service" for name in PARTIES},
}


def names() -> dict[str, str]:
    """Of deploy/compose.yaml's networks: those that are dialled lead to the first listener of their node."""
    first = {
        "lead": ["lead.cleveland"],
        "north": ["north.cleveland", "control.north"],
        "south": ["south.cleveland", "control.south", "peer.south"],
    }
    groups = [[name, *others] for name, others in first.items()]
    groups += [[f"{name}.{party}"] for name in first for party in PARTIES if party != "cleveland"]
    groups += [["dashboard.lead"]]
    return {name: f"127.0.1.{place}" for place, group in enumerate(groups, 1) for name in group}


def inside(container: Container, script: str, check: bool = True) -> str:
    """Of bash, as root; what it printed."""
    command = ["docker", "exec", container.id or "", "bash", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_SECONDS)
    assert not check or done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def machine(
    client: "docker.DockerClient", images: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Container]:
    folder = tmp_path_factory.mktemp("image")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    shutil.copytree(ROOT / "deploy" / "systemd", folder / "systemd")
    build = ["docker", "build", "--network", "host", "-q", "-t", IMAGE, str(folder)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    words = ["--cap-add", "SYS_ADMIN", "--cap-add", "SYS_PTRACE"]  # systemd makes the units' namespaces
    words += [f"--security-opt={what}=unconfined" for what in ("seccomp", "apparmor", "systempaths")]
    words += ["-v", "/sys/fs/cgroup:/sys/fs/cgroup:rw", *(f"--tmpfs={place}" for place in ("/run:exec", "/tmp"))]
    words += [f"--add-host={name}:{address}" for name, address in names().items()]
    # by the command: the SDK does not know systempaths
    run = ["docker", "run", "-d", "--name", f"{own_network()[0]}-systemd", *words, IMAGE]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = client.containers.get(done.stdout.strip())
    try:
        state = "systemctl is-system-running"
        wait(lambda: inside(made, state, check=False).strip() == "running", GIVE_UP_SECONDS, "systemd is not up")
        inside(made, PREPARE)
        for name in UNITS.values():
            inside(made, f"systemctl enable --now {name}")
        yield made
    finally:
        made.remove(force=True)


def as_node(command: str) -> str:
    return f"cd / && runuser -u parley -- /opt/parley/bin/parley {command}"


def test_a_model_is_trained_under_every_restriction(machine: Container) -> None:
    for name, unit in UNITS.items():
        health = as_node(f"health {NODES}/{name}")
        wait(partial(inside, machine, health, check=False), GIVE_UP_SECONDS, f"{unit} is not healthy")
    said = inside(machine, as_node(f"run {NODES}/study.toml --node {NODES}/lead --json"))
    assert '"state": "finished"' in said
    for name in UNITS.values():
        assert inside(machine, f"systemctl show -p NRestarts,ActiveState {name}").split() == [
            "NRestarts=0", "ActiveState=active",
        ]  # fmt: skip
    assert inside(machine, "systemctl --failed --no-legend").strip() == ""


@pytest.mark.parametrize("name", ["cleveland", "north", "lead"])
def test_the_kernel_says_so_too(machine: Container, name: str) -> None:
    pid = inside(machine, f"systemctl show -p MainPID --value {UNITS[name]}").strip()
    status = dict(
        line.split(":\t") for line in inside(machine, f"cat /proc/{pid}/status").splitlines() if ":\t" in line
    )
    user = inside(machine, "id -u parley").strip()
    assert status["Uid"].split() == [user] * 4
    assert (status["NoNewPrivs"], status["Seccomp"], status["CapBnd"]) == ("1", "2", "0" * 16)
    mounts = inside(machine, f"cat /proc/{pid}/mountinfo").splitlines()
    writable = {words[4] for words in map(str.split, mounts) if "rw" in words[5].split(",")}
    own = {f"{NODES}/{name}/state", f"{NODES}/{name}/models"}
    assert {place for place in writable if place.startswith(("/var/lib", "/etc", "/opt", "/home"))} <= own
    assert "/" not in writable


def test_a_node_that_dies_is_started_again_and_goes_on(machine: Container) -> None:
    unit = UNITS["va"]
    first = inside(machine, f"systemctl show -p MainPID --value {unit}").strip()
    inside(machine, f"kill -9 {first}")
    again = f"systemctl show -p MainPID --value {unit}"
    wait(lambda: inside(machine, again).strip() not in (first, "0"), GIVE_UP_SECONDS, "it is not started again")
    health = as_node(f"health {NODES}/va")
    wait(lambda: "turned" in inside(machine, health, check=False), GIVE_UP_SECONDS, "it is not healthy again")
    lines = inside(machine, f"journalctl -q --no-pager -o cat -u {unit}")
    assert re.search(r'"role": ?"party"', lines), "its log is in the journal"


def test_a_unit_without_its_hardening_is_not_started(machine: Container) -> None:
    away = "/etc/systemd/system/parley-.service.d"
    inside(machine, f"mv {away} /root/away && systemctl daemon-reload")
    try:
        inside(machine, f"systemctl restart {UNITS['va']}", check=False)
        assert inside(machine, f"systemctl is-active {UNITS['va']}", check=False).strip() != "active"
        assert inside(machine, f"systemctl show -p AssertResult --value {UNITS['va']}").strip() == "no"
    finally:
        inside(machine, f"mv /root/away {away} && systemctl daemon-reload && systemctl restart {UNITS['va']}")
