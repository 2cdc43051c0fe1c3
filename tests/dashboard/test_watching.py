"""What `parley watch` shows in a terminal, and what the dashboard's wiring reads in node.toml."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from parley.cli.watch_screen import follow_plainly, spark, view
from parley.coordinator.operator_client import Presence
from parley.coordinator.store import RoundRecord, RunRow, RunStore, State
from parley.dashboard.history import Histories
from parley.dashboard.process import DEFAULT, link, settings_of
from parley.node.errors import NodeError, NodeFileError
from parley.node.node_file import Address, CoordinatorNode, read_node
from tests.dashboard.folders import coordinator_folder, write_run

NODE = """role = "coordinator"
listen = "0.0.0.0:7400"
[aggregators]
north = "a:7402"
south = "b:7402"
"""


@pytest.mark.parametrize("rounds", [0, 1, 10, 1000])
def test_the_terminal_shows_the_same_facts(tmp_path: Path, rounds: int) -> None:
    state, document = coordinator_folder(tmp_path, rounds)
    store = RunStore(state / "runs.sqlite", read_only=True)
    console = Console(width=120, record=True, file=io.StringIO())
    row = store.runs()[0]
    presence = Presence(rounds, frozenset({"hospital-a"}), frozenset(), 0.1, (("south", "unreachable", 4.2),))
    console.print(view(row, document, Histories(store).of(document.digest), presence))
    said = console.export_text()
    assert "heart-1" in said
    assert f"{rounds:,} of {document.releases:,}" in said
    assert "ε 1.78" in said
    assert "if a server lies" in said
    assert "south cannot be reached, for 4.2 s" in said
    if rounds:
        for word in (
            "left",
            "present",
            "waiting for",
            "hospital-b, hospital-c",
            "of noise",
            "auc",
            "waited",
            "shares up",
        ):
            assert word in said, word
    store.close()


class Followed:
    """A run that has ended by the time that somebody looks."""

    def __init__(self, store: RunStore) -> None:
        self.store = store

    def follow(self, digest: bytes) -> Iterator[tuple[RunRow, list[RoundRecord]]]:
        row = self.store.get(digest)
        assert row is not None
        yield row, self.store.history(digest)


def test_in_a_file_the_end_of_a_run_comes_after_its_rounds_and_no_line_is_broken(tmp_path: Path) -> None:
    state, document = coordinator_folder(tmp_path, None)
    store = RunStore(state / "runs.sqlite")
    write_run(store, document, document.releases, State.finished, "40 rounds")
    console = Console(width=40, file=io.StringIO(), record=True)
    follow_plainly(console, Followed(store), document.digest)
    last, end = console.export_text().splitlines()
    assert last.startswith("round 40/40, 3 parties present; public test: loss") or "missing" in last
    assert "left" not in last
    assert end == "heart-1 is finished: 40 rounds"
    store.close()


def test_a_curve_in_one_line() -> None:
    assert spark([1.0]) == "▁"
    assert spark([1, 2, 3]) == "▁▄█" or spark([1, 2, 3]) == "▁▅█"
    assert len(spark(list(range(1000)))) == 24


def _read(folder: Path, more: str) -> CoordinatorNode:
    (folder / "node.toml").write_text(NODE + more)
    node = read_node(folder)
    assert isinstance(node, CoordinatorNode)
    return node


def test_a_dashboard_is_on_loopback_unless_it_is_said(tmp_path: Path) -> None:
    node = _read(tmp_path, "")
    assert node.dashboard is None
    assert node.metrics is None
    assert settings_of(node).loopback
    assert not settings_of(node).secure
    assert settings_of(node).port == DEFAULT.listen.port
    assert link(settings_of(node), "t") == "http://127.0.0.1:7480/login#t"


def test_a_link_leads_to_where_a_container_publishes_the_port(tmp_path: Path) -> None:
    """`dashboard.lead:7480`, which a container listens on, is a name that no browser knows."""
    (tmp_path / "c").write_text("")
    node = _read(tmp_path, '[dashboard]\nlisten = "dashboard.lead:7480"\ncertificate = "c"\nkey = "c"\n')
    assert link(settings_of(node), "t", Address("127.0.0.1", 8443)) == "https://127.0.0.1:8443/login#t"


def test_elsewhere_it_needs_a_certificate(tmp_path: Path) -> None:
    node = _read(tmp_path, '[dashboard]\nlisten = "0.0.0.0:7480"\n')
    with pytest.raises(NodeError, match="does not exist"):
        settings_of(node)
    (tmp_path / "c").write_text("")
    (tmp_path / "k").write_text("")
    node = _read(tmp_path, '[dashboard]\nlisten = "0.0.0.0:7480"\ncertificate = "c"\nkey = "k"\n')
    assert settings_of(node).secure
    assert settings_of(node, Address("127.0.0.1", 0)).port == 0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[dashboard]\nlisten = "0.0.0.0:7480"\nmetrics = true\n', "for loopback"),
        ('[dashboard]\nlisten = "127.0.0.1:7480"\nkey = "k"\n', "belong together"),
        ('[dashboard]\nlisten = "127.0.0.1:7480"\ntoken = "x"\n', "unknown"),
        ('[metrics]\nlisten = "0.0.0.0:9464"\n', "no login"),
    ],
)
def test_what_would_open_it_too_far_is_refused(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(NodeFileError, match=says):
        _read(tmp_path, more)
