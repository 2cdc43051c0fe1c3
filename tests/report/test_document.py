"""What is read of a content: in the order of an officer's questions, no longer than two pages have room for."""

import copy
from pathlib import Path

import pytest

from parley.report.blocks import Heading, Rows, Table, Text
from parley.report.document import MOST_MEMBERS, MOST_RUNS, document
from parley.report.errors import ReportError
from tests.support.documents import meaning
from tests.support.reports import budget, content, facts, run


def texts(blocks: object) -> str:
    return str(blocks)


def test_what_there_is_too_much_of_is_counted_and_left_to_the_content(tmp_path: Path) -> None:
    body = content(tmp_path, facts(budgets=(budget(*(run(f"run-{index}") for index in range(MOST_RUNS + 5))),)))
    member = body["members"][0]
    body["members"] = [
        *({**member, "name": f"party-{index}"} for index in range(MOST_MEMBERS + 7)),
        *body["members"][3:],
    ]
    found = document(body)
    tables = {each.head[0]: each for each in found.blocks if isinstance(each, Table)}
    assert len(tables["Who"].rows) == MOST_MEMBERS + 3
    assert [row[0] for row in tables["Who"].rows[-3:]] == ["north", "south", "lead"]
    assert [row[0] for row in tables["Run"].rows] == [f"run-{index}" for index in range(5, MOST_RUNS + 5)]
    assert "And 7 parties more" in texts(found)
    assert "And 5 earlier runs" in texts(found)


def test_figures_stand_first_and_say_against_whom(tmp_path: Path) -> None:
    blocks = document(content(tmp_path)).blocks
    assert [type(each) for each in blocks[:3]] == [Heading, Text, Text]
    assert blocks[1] == Text("ε = 1.78 at δ = 0.00001; if an aggregator departs from the protocol: ε₂ = 4.2", "big")
    whole = {"noise.security": "malicious", "noise.own": 1.0}
    blocks = document(content(tmp_path, facts(meaning(**whole)))).blocks
    assert blocks[1] == Text("ε = 1.78 at δ = 0.00001, also if one aggregator does anything whatever", "big")
    body = content(tmp_path)
    body["guarantee"]["epsilon_if_a_server_lies"] = None
    assert "departs from the protocol: no guarantee" in texts(document(body).blocks[1])


def test_a_budget_beyond_its_cap_says_so(tmp_path: Path) -> None:
    caught = budget(run(caught=["ab" * 32], epsilon_if_a_server_lies=None), beyond_the_cap=True)
    said = texts(document(content(tmp_path, facts(budgets=(caught, budget(epsilon_if_a_server_lies=None))))))
    assert "BEYOND THE CAP" in said
    assert "heart-1 (a server was caught)" in said
    assert "if a server lies: no guarantee" in said


def test_each_role_says_what_left_it_and_who_keeps_the_budget(tmp_path: Path) -> None:
    for role, said in (
        ("party", "No record left this site"),
        ("aggregator", "An aggregator keeps no budget"),
        ("coordinator", "This node never had a record"),
    ):
        body = content(tmp_path)
        body["node"]["role"] = role
        assert said in texts(document(body))


def test_servers_keys_stand_before_parties(tmp_path: Path) -> None:
    body = content(tmp_path)
    body["pins"] = [{**body["pins"][0], "node": "parley://cardio/party/hospital-b"}, *body["pins"]]
    rows = [each for each in document(body).blocks if isinstance(each, Rows)][-1].each
    pinned = [name for name, _ in rows if name.startswith("Pinned")]
    assert pinned == ["Pinned: aggregator north", "Pinned: aggregator south", "Pinned: coordinator lead",
                      "Pinned: party hospital-b"]  # fmt: skip


def test_a_content_with_something_missing_is_no_report(tmp_path: Path) -> None:
    good = content(tmp_path)
    for name in good:
        if name in ("made", "software", "layout", "node", "run", "legal", "guarantee", "members", "left", "budgets"):
            body = copy.deepcopy(good)
            del body[name]
            with pytest.raises(ReportError):
                document(body)
