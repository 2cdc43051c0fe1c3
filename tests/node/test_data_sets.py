"""[data] and [[data]]: what is read, that one without a name is as it was, and that every slip is named."""

from pathlib import Path

import pytest

from parley.node.data_sets import DataSet, Query, state_file
from parley.node.errors import NodeFileError
from parley.node.node_file import PartyNode, read_node
from parley.party.process import settings_of

HEAD = """
role = "party"
coordinator = "lead@lead.example:7400"
[aggregators]
north = "north.example:7401"
south = "south.example:7401"
[budget]
epsilon = 4.0
delta = 1e-4
"""
ONE = """
[data]
files = ["images", "labels"]
schema = "schema.toml"
population = "patients"
"""
FIRST = """
[[data]]
name = "cardiology"
files = ["records.csv"]
schema = "cardiology.toml"
population = "patients"
"""
SECOND = '''
[[data]]
name = "clinic-2"
query = """
SELECT age, sick
FROM visits
"""
url_file = "/run/secrets/database.url"
schema = "clinic.toml"
population = "patients"
'''


def read(folder: Path, text: str) -> tuple[DataSet, ...]:
    (folder / "node.toml").write_text(HEAD + text)
    node = read_node(folder)
    assert isinstance(node, PartyNode)
    return node.data


def test_one_data_set_has_no_name_and_its_seal_lies_where_it_has_always_been(tmp_path: Path) -> None:
    (data,) = read(tmp_path, ONE)
    files = (tmp_path / "images", tmp_path / "labels")
    assert data == DataSet(files=files, schema=tmp_path / "schema.toml", population="patients")
    node = read_node(tmp_path)
    assert isinstance(node, PartyNode)
    assert settings_of(node).seal(data) == tmp_path / "state" / "seal.json"


def test_several_have_a_name_each_and_files_of_state_of_their_own(tmp_path: Path) -> None:
    first, second = read(tmp_path, FIRST + SECOND)
    assert (first.name, first.files, first.query) == ("cardiology", (tmp_path / "records.csv",), None)
    assert second.files == (tmp_path / "state" / "snapshot-clinic-2.jsonl",)
    assert second.query == Query("SELECT age, sick\nFROM visits", Path("/run/secrets/database.url"))
    assert state_file(tmp_path, "clinic-2", "seal", ".json") == tmp_path / "seal-clinic-2.json"
    (alone,) = read(tmp_path, FIRST)
    assert alone == first


def test_a_query_may_lie_in_a_file_of_its_own(tmp_path: Path) -> None:
    text = ONE.replace('files = ["images", "labels"]', 'query = "visits.sql"\nurl_file = "database.url"')
    (data,) = read(tmp_path, text)
    assert data.query == Query(tmp_path / "visits.sql", tmp_path / "database.url")
    assert data.files == (tmp_path / "state" / "snapshot.jsonl",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (FIRST + FIRST, r"data\[1\].name: is 'cardiology' twice"),
        (FIRST.replace("cardiology", "../x"), r"data\[0\].name: is '../x': use"),
        (FIRST.replace('name = "cardiology"', ""), r"data\[0\].name: is missing"),
        (FIRST + SECOND.replace("url_file", "url_fil"), r"data\[1\].url_file: is missing; did you mean 'url_fil'"),
        (SECOND.replace("query", 'files = ["a.csv"]\nquery'), r"data\[0\].files: and query are both there"),
        (ONE + 'url = "postgresql://x"', r"data.url: is unknown"),
        (ONE + 'name = "cardiology"', r"data.name: is unknown"),
        (ONE.replace('["images", "labels"]', "[]"), r"data.files: is empty: name at least one"),
        (ONE.replace('files = ["images", "labels"]', ""), r"data.files: is missing"),
        (ONE.replace('files = ["images", "labels"]', 'query = ""\nurl_file = "x"'), r"data.query: is '': give text"),
        ("", r"data: is missing"),
    ],
)
def test_a_slip_is_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(NodeFileError, match=problem):
        read(tmp_path, text)
