"""The lists of all roles, and the page that shows them."""

from pathlib import Path

import pytest

from parley.aggregator import backup as aggregator
from parley.coordinator import backup as coordinator
from parley.node.backup import Contents
from parley.node.node_file import Address, PartyNode
from parley.party import backup as party

PAGE = Path(__file__).parents[2] / "docs" / "backup.md"


def party_node(folder: Path) -> PartyNode:
    return PartyNode(
        folder=folder, coordinator=Address("h", 1), coordinator_name="lead", aggregators={}, data=(), epsilon=1.0,
        delta=1e-5,
    )  # fmt: skip


LISTS = {
    "party": party.contents(party_node(Path("/node"))),
    "aggregator": aggregator.contents(),
    "coordinator": coordinator.contents(),
}


@pytest.mark.parametrize("role", LISTS)
def test_the_page_shows_every_line_of_the_list_on_its_side(role: str) -> None:
    inside, _, outside = PAGE.read_text().partition("## What is left out")
    contents = LISTS[role]
    assert [each for each in (*contents.inside, *contents.databases) if f"`{each}`" not in inside] == []
    assert [each for each in contents.outside if f"`{each}`" not in outside] == []


@pytest.mark.parametrize("role", LISTS)
def test_nothing_is_on_both_sides(role: str) -> None:
    contents = LISTS[role]
    for path in contents.databases:
        assert contents.place(path) == "database"
        assert all(contents.place(path + ending) == "out" for ending in ("-wal", "-shm"))
    for pattern in contents.outside:
        assert contents.place(pattern.replace("*", "x")) == "out", pattern


def test_a_star_stands_for_no_folder_but_at_the_end() -> None:
    contents = Contents({"*.toml": "", "models/*": ""}, {}, {"state/.*": ""})
    assert [contents.place(path) for path in ("a.toml", "b/a.toml", "models/a/b", "models", "state/.x/y")] == [
        "in", "unknown", "in", "unknown", "unknown"
    ]  # fmt: skip
