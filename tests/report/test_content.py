"""What is signed: stable names of fields, and only what a node's operator may hand to anybody."""

import json
from pathlib import Path

from parley.node.evidence import Answer, EvidenceFolder, Held
from parley.node.node_file import read_node
from parley.node.trail import Trail
from parley.report.content import LAYOUT, content_of, in_the_trail
from parley.report.document import document
from tests.support.documents import manifest, meaning
from tests.support.reports import NOW, PEOPLE, content, facts, identity, party
from tests.support.stage import NORTH, PARTY, SOUTH

NAMES = {
    "": "layout made node run legal guarantee members left budgets evidence servers pins books software not_promised",
    "node": "identity federation role name key_fingerprint pin certificate certificate_expires authority",
    "run": "run state reason withdrawn rounds rounds_planned model parameters algorithm manifest_digest "
    "mechanism_digest admitted",
    "legal": "purpose legal_basis ethics_number expires retention",
    "guarantee": "epsilon delta epsilon_if_a_server_lies security own audit accountant unit relation worst_party "
    "a_server_was_caught plainly statement",
    "members": "name role legal_entity contact units data_set answer reason rounds",
    "left": "to kind bytes times",
    "servers": "ends statements not_by_a_pinned_key settled_on checked",
    "pins": "node key key_fingerprint",
    "books": "ledger_head trail_head",
    "software": "name version source_digest",
}
"""What scripts rely on. A name that is gone or means something else needs another format."""


def test_fields_keep_their_names(tmp_path: Path) -> None:
    found = content(tmp_path)
    for place, names in NAMES.items():
        body = found[place] if place else found
        for each in body if isinstance(body, list) else [body]:
            assert list(each) == names.split(), place
    assert (found["layout"], found["made"]) == (LAYOUT, "2026-11-20T03:14:15+00:00")
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_what_a_manifest_does_not_say_is_null_and_called_not_said(tmp_path: Path) -> None:
    found = content(tmp_path, facts(meaning()))
    assert set(found["legal"].values()) == {None}
    assert found["members"][0]["contact"] is None
    assert "not said in the manifest" in str(document(found))


def test_who_took_part_comes_with_role_entity_and_contact(tmp_path: Path) -> None:
    members = {each["name"]: each for each in content(tmp_path)["members"]}
    assert list(members) == ["hospital-a", "hospital-b", "hospital-c", "north", "south", "lead"]
    assert members["hospital-a"]["legal_entity"] == "St. Anna Hospital"
    assert (members["hospital-a"]["units"], members["hospital-a"]["rounds"]) == (300, 40)
    assert (members["north"]["role"], members["south"]["role"]) == ("aggregator A", "aggregator B")
    assert members["lead"]["contact"] == PEOPLE["coordinator.contact"]


def test_a_run_that_was_never_verified_claims_nothing(tmp_path: Path) -> None:
    found = content(tmp_path, facts(meaning=None, rounds=0))
    assert found["guarantee"] is None
    assert "has not verified what the run would claim" in str(document(found))


def test_a_run_of_which_nothing_was_released_says_so(tmp_path: Path) -> None:
    assert "Nothing was released with this node" in str(document(content(tmp_path, facts(rounds=0))))


def test_a_server_that_was_caught_is_named_and_takes_the_promise_away(tmp_path: Path) -> None:
    node = party(tmp_path)
    folder = EvidenceFolder(node.state)
    digest = folder.keep(b"evidence")
    folder.note(Held(digest, SOUTH, "00" * 32, "2026-11-20T01:00:00+00:00", (manifest().run,), True))
    found = content_of(node, identity(), facts(), "", NOW)
    assert [(each["server"], each["held_against_this_run"]) for each in found["evidence"]] == [(SOUTH.uri, True)]
    assert found["guarantee"]["a_server_was_caught"]
    said = str(document(found))
    assert "departed from the noise protocol" in said
    assert "Not answered yet" in said
    assert "as long as that aggregator keeps to the protocol" not in said
    folder.change(digest, answer=Answer("N. N.", "another operator", "2026-11-20T02:00:00+00:00"), runs=("other",))
    found = content_of(node, identity(), facts(), "", NOW)
    assert not found["guarantee"]["a_server_was_caught"]
    assert "Answered by N. N." in str(document(found))
    assert "another operator" not in json.dumps(found)


def test_pins_and_the_nodes_own_key_are_there_to_be_compared(tmp_path: Path) -> None:
    found = content(tmp_path)
    assert [each["node"].split("/")[-1] for each in found["pins"]] == ["north", "south", "lead"]
    assert found["node"]["identity"] == PARTY.uri
    assert NORTH.uri in json.dumps(found["pins"])


def test_dates_are_of_the_trail_which_is_checked_on_the_way(tmp_path: Path) -> None:
    node = read_node(party(tmp_path).folder)
    assert in_the_trail(node.trail) == ("", {})
    with Trail.open(node.trail, PARTY) as trail:
        trail.append("run.joined", run="heart-1")
        trail.append("run.charged", run="heart-1", sequence=3)
        trail.append("run.settled", run="heart-1")
        trail.append("run.charged", run="heart-2", sequence=4)
        head = str(trail.head())
    found, dates = in_the_trail(node.trail)
    assert found == head
    assert dates["heart-1"].charged
    assert dates["heart-1"].ended
    assert dates["heart-2"].charged
    assert not dates["heart-2"].ended
