"""`parley pin`, in words and in groups that can be read out."""

import json
from pathlib import Path

import pytest

from parley.federation.errors import (
    FederationError,
)
from parley.federation.names import NodeName
from parley.node import trust
from parley.node.authority import ThrowAwayAuthority
from parley.node.pins import key_text, parse_key
from tests.support.command import answer, parley
from tests.support.pinned import LEAD, NORTH, PARTY, SOUTH, alone


def test_installing_asks_for_the_peers_that_are_not_pinned_yet(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    folder, asked = alone(tmp_path / "node", issuer, PARTY), list[NodeName]()
    answers = {SOUTH: key_text(issuer.issue_as(SOUTH).pin), LEAD: ""}

    def prompt(peer: NodeName) -> str:
        asked.append(peer)
        return answers[peer]

    trust.ask(folder, [f"aggregator/north={key_text(issuer.issue_as(NORTH).pin)}"], [LEAD, NORTH, SOUTH], prompt)
    assert asked == [LEAD, SOUTH]
    assert sorted(folder.load().pins) == [NORTH, SOUTH, PARTY]
    for given in ("aggregator/north", "north=02", f"cook/north={answers[SOUTH]}"):
        with pytest.raises(FederationError):
            trust.ask(folder, [given], [], prompt)


def test_the_commands_show_a_key_in_groups_that_can_be_read_out(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    folder = alone(tmp_path / "node", issuer, SOUTH)
    shown = answer(parley("node", "show", "--folder", str(folder.path), "--json"))
    assert shown["pin"] == key_text(folder.load().pin)
    assert parse_key(shown["pin"]) == folder.load().pin
    assert [len(group) for group in shown["pin"].split(":")] == [2, *[4] * 16]
    assert json.dumps(shown)
