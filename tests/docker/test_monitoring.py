"""The profile `monitoring`: a real Prometheus beside each node, asked by its own API."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from tests.docker.engine import COORDINATOR, NODES, PARTIES, ROOT, RUN_SECONDS, Federation, wait
from tests.docker.test_isolation import KNOCK, addresses

pytestmark = pytest.mark.docker
PROFILE = ("--profile", "monitoring")
ASK = """
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())
"""


class Monitors:
    """One for each node; each is asked from inside of its own network."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation

    def ask(self, name: str, path: str) -> Any:
        host = "dashboard.lead" if name == COORDINATOR else "127.0.0.1"
        text = self.federation.run(f"{name}-prometheus", "python3", "-c", ASK, f"http://{host}:9090/api/v1/{path}")
        answer = json.loads(text)
        assert answer["status"] == "success"
        return answer["data"]

    def value(self, name: str, metric: str) -> float | None:
        result = self.ask(name, f"query?query={metric}")["result"]
        return float(result[0]["value"][1]) if result else None

    def ready(self, name: str) -> bool:
        try:
            return [each["health"] for each in self.ask(name, "targets?state=active")["activeTargets"]] == ["up"]
        except AssertionError:
            return False


@pytest.fixture(scope="module")
def monitors(federation: Federation) -> Iterator[Monitors]:
    services = [f"{name}-prometheus" for name in NODES]
    federation.compose(*PROFILE, "build", services[0])
    try:
        federation.compose(*PROFILE, "up", "-d", "--no-build", "--no-deps", *services)
        yield Monitors(federation)
    finally:
        federation.compose(*PROFILE, "rm", "--stop", "--force", *services, check=False)


@pytest.mark.parametrize("name", NODES)
def test_every_node_is_scraped_by_its_own_prometheus_and_by_no_other(monitors: Monitors, name: str) -> None:
    wait(lambda: monitors.ready(name), RUN_SECONDS, f"{name} is not scraped")
    assert monitors.value(name, "parley_start_time_seconds") is not None
    nodes = monitors.ask(name, "label/node/values")
    assert nodes == [name]


@pytest.mark.parametrize("name", [COORDINATOR, "north", PARTIES[0]])
def test_every_rule_is_loaded_and_none_is_broken(monitors: Monitors, name: str) -> None:
    wait(lambda: monitors.ready(name), RUN_SECONDS, f"{name} is not scraped")

    def healths() -> list[str]:
        groups = monitors.ask(name, "rules")["groups"]
        found = [rule["health"] for group in groups for rule in group["rules"]]
        return found if "unknown" not in found else []

    written = yaml.safe_load((ROOT / "deploy" / "monitoring" / "rules.yml").read_text())["groups"]
    found = wait(healths, RUN_SECONDS, "rules are not evaluated")
    assert found == ["ok" for group in written for _ in group["rules"]]


def test_an_alert_goes_off_when_a_node_is_silent_and_ends_when_it_is_back(monitors: Monitors) -> None:
    name = PARTIES[-1]
    wait(lambda: monitors.ready(name), RUN_SECONDS, f"{name} is not scraped")
    monitors.federation.pause(name)
    try:
        pending = "ALERTS{alertname=%22ParleyNodeDown%22}"
        wait(lambda: monitors.value(name, pending) == 1.0, RUN_SECONDS, "nothing is noticed")
    finally:
        monitors.federation.container(name).unpause()
    wait(lambda: monitors.value(name, pending) is None, RUN_SECONDS, "the alert does not end")
    monitors.federation.wait_ready(name)


def test_neither_metrics_nor_prometheus_is_reached_from_another_node(monitors: Monitors) -> None:
    where = addresses(monitors.federation)
    for name in (PARTIES[0], "north", COORDINATOR):
        wait(partial(monitors.ready, name), RUN_SECONDS, f"{name} is not scraped")
        foreign = [
            [each, port] for other, known in where.items() if other != name for each in known for port in (9090, 9464)
        ]
        opened = monitors.federation.run(name, "python", "-c", KNOCK, stdin=json.dumps(foreign))
        assert json.loads(opened) == []
