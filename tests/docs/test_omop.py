"""examples/omop: a made-up hospital, its query, a model over three, and a node that seals what the query gives."""

import shutil
import sys
from pathlib import Path

import pytest

from parley.attacks.documents import FEDERATION, PARTY, write_party
from parley.learning.schema import Schema
from parley.learning.sql import sql
from parley.node.authority import ThrowAwayAuthority
from parley.node.data_sets import DataSet, Query
from parley.party.record_check import seal_node
from parley.study.model_file import load
from tests.docs.pages import ROOT
from tests.docs.test_examples import run
from tests.support.postgresql import BIN, postgresql

OMOP = ROOT / "examples" / "omop"
QUERY = (OMOP / "patients.sql").read_text()


@pytest.mark.slow
def test_one_model_over_three_hospitals(tmp_path: Path) -> None:
    lines = run(sys.executable, OMOP / "train.py", tmp_path / "model.npz").splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["riverside", "hillcrest", "lakeview"]
    found = load(tmp_path / "model.npz")
    assert isinstance(found.schema, Schema)
    known = {"gender": "8507", "systolic": 130, "hypertension": "0"}
    young = {**known, "age": 25, "body_mass_index": 21, "glucose": 85}
    old = {**known, "age": 80, "body_mass_index": 36, "glucose": 130}
    low, high = found.predict_proba([young, old])[:, -1]
    assert low < 0.2 < high


def test_a_hospitals_node_seals_what_the_query_gives(tmp_path: Path) -> None:
    """As docs/data.md says it, with the files of the example."""
    node = tmp_path / "hospital"
    ThrowAwayAuthority(FEDERATION).install(node / "identity", PARTY)
    run(sys.executable, OMOP / "make_database.py", node / "omop.db", "--people", "300")
    shutil.copy(OMOP / "patients.sql", node)
    (node / "database.url").write_text("sqlite:///omop.db")
    (node / "database.url").chmod(0o600)
    query, snapshot = Query(node / "patients.sql", node / "database.url"), node / "state" / "snapshot.jsonl"
    data = DataSet(files=(snapshot,), schema=node / "schema.toml", population="patients", query=query)
    write_party(node, data=(data,))
    schema = (OMOP / "schema.toml").read_text()
    (node / "schema.toml").write_text(schema)
    (problem,) = seal_node(node).problems
    units = problem.removeprefix("there are ").partition(" units")[0]
    (node / "schema.toml").write_text(schema.replace("units = 2000", f"units = {units}"))
    found = seal_node(node)
    assert (found.problems, str(found.units), 250 < found.units <= 300) == ([], units, True)


@pytest.mark.slow
@pytest.mark.skipif(BIN is None, reason="no PostgreSQL: apt-get install postgresql")
def test_postgresql_gives_the_same_rows(tmp_path: Path) -> None:
    import sqlite3

    import psycopg

    run(sys.executable, OMOP / "make_database.py", tmp_path / "omop.db", "--people", "300")
    with postgresql() as server, psycopg.connect(server.url()) as there, sqlite3.connect(tmp_path / "omop.db") as here:
        for name, made in here.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall():
            there.execute(made.encode())
            rows = here.execute(f"SELECT * FROM {name}").fetchall()
            places = ", ".join(["%s"] * len(rows[0]))
            there.cursor().executemany(f"INSERT INTO {name} VALUES ({places})".encode(), rows)
        there.commit()
        found = sql(server.url(), f"{QUERY} ORDER BY 1")
    due = sql(f"sqlite:///{tmp_path / 'omop.db'}", f"{QUERY} ORDER BY 1")
    assert list(found.columns) == list(due.columns)
    for name, cells in due.columns.items():
        numbers = [None if cell is None else float(cell) for cell in found.columns[name]]
        assert numbers == [None if cell is None else float(cell) for cell in cells], name
