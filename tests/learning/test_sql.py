"""Rows of a database: as they lie there, read and never written, and no password in what is said. SQLite here."""

import itertools
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.learning.errors import DataError
from parley.learning.holding import Layout
from parley.learning.readers import Table, read
from parley.learning.records import encode
from parley.learning.schema import schema_from_json
from parley.learning.sql import json_lines, opened, sql

NOT_NULL = "SELECT age, pain FROM people WHERE pain IS NOT NULL"
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "cli#nic ü.db"
    with closing(sqlite3.connect(path)) as made:
        made.executescript(
            """
            CREATE TABLE people (age REAL, pain TEXT, born TEXT, whole INTEGER, sick INTEGER, photo BLOB);
            INSERT INTO people VALUES (63.25, 'typical', '1960-02-29', 9007199254740993, 1, NULL);
            INSERT INTO people VALUES (41.1, '', NULL, -1, 0, NULL);
            INSERT INTO people VALUES (NULL, NULL, '1999-12-31', 0, 1, NULL);
            INSERT INTO people VALUES (9e999, ' a;"b"
c' || char(8232) || 'd', 'NA', 7, 0, x'00');
            """
        )
    return path


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def test_cells_are_what_the_database_has_and_null_is_not_empty_text(database: Path) -> None:
    found = sql(url(database), "SELECT age, pain, born, whole FROM people ORDER BY whole DESC")
    assert found.count == 4
    assert found.columns["whole"] == (9007199254740993, 7, 0, -1)
    assert found.columns["age"] == (63.25, "Infinity", None, 41.1)
    assert found.columns["pain"] == ("typical", ' a;"b"\nc\u2028d', None, "")
    assert found.columns["born"] == ("1960-02-29", "NA", "1999-12-31", None)


def test_a_query_of_no_rows_is_a_table_of_none(database: Path) -> None:
    found = sql(url(database), "SELECT age, pain FROM people WHERE 0")
    assert (found.count, dict(found.columns)) == (0, {"age": (), "pain": ()})


def test_the_file_of_a_query_reads_back_as_the_query(database: Path, tmp_path: Path) -> None:
    """And encodes as it would have: what "" is depends on the words for missing, what NULL is does not."""
    query, kept = (
        "SELECT age, pain, born, whole, sick FROM people WHERE age < 100 OR age IS NULL",
        tmp_path / "rows.jsonl",
    )
    with opened(url(database), query) as (names, rows):
        kept.write_text("".join(json_lines(names, rows)))
    found, direct = read([kept], Layout("jsonl"), "sick"), sql(url(database), query)
    assert isinstance(found, Table)
    assert (found.columns, found.count) == (direct.columns, direct.count)
    schema = schema_from_json(
        {
            "features": [
                {"name": "age", "low": 20, "high": 90, "missing": "centre"},
                {"kind": "category", "name": "pain", "categories": ["typical", ""], "missing": "zero"},
            ],
            "target": {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]},
        }
    )
    rows_of = encode(found, schema, Layout("jsonl", missing=("NA",))).rows
    everybody = np.arange(len(rows_of))
    marks = [tuple(row[1:3] > 0) for row in rows_of.take(everybody).dense()]
    assert marks == [(True, False), (False, True), (False, False)]


def test_the_order_of_columns_is_the_querys_and_free(database: Path) -> None:
    one, other = (sql(url(database), f"SELECT {each} FROM people WHERE sick") for each in ("age, sick", "sick, age"))
    assert one.columns == other.columns


def test_rows_come_as_they_are_found_and_not_all_at_once(database: Path) -> None:
    with opened(url(database), ENDLESS) as (names, rows):
        assert (names, list(itertools.islice(rows, 3))) == (["x"], [[1], [2], [3]])


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT agee FROM people", "no such column: agee): correct the query"),
        ("SELECT age FROM persons", "no such table: persons): correct the query"),
        ("SELEC age", "syntax error): correct the query"),
        ("SELECT age AS a, sick AS a FROM people", "gives 'a' twice: give one of them another name with AS"),
        ("SELECT photo FROM people", "row 4, column photo is bytes, which is no cell of a table: CAST it"),
        ("DELETE FROM people", "give a query that only reads"),
        ("CREATE TABLE other (x)", "give a query that only reads"),
        ("SELECT age FROM people; DROP TABLE people", "one statement at a time"),
        ("PRAGMA query_only = OFF", "gives no table: write one SELECT"),
        ("ATTACH 'other.db' AS other", "give a query that only reads"),
    ],
)
def test_a_query_that_fails_says_what_to_change_and_nothing_was_written(
    database: Path, query: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(database.parent)
    before = database.read_bytes()
    with pytest.raises(DataError) as raised:
        sql(url(database), query)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)
    assert database.read_bytes() == before
    assert list(database.parent.iterdir()) == [database]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("sqlite:///nowhere/hunter2.db", "there is no SQLite file hunter2.db"),
        ("sqlite://", "names no SQLite file"),
        ("sqlite:///:memory:", "names no SQLite file"),
        ("sqlite:///file:hunter2?mode=rwc&uri=true", "names no SQLite file"),
        ("mysql://reader:hunter2@db/clinic", "is neither PostgreSQL nor SQLite"),
        ("postgresql://reader:hun@ter2@db/clinic", "has two @"),
        ("postgresql://", "has no host and no database"),
        ("hunter2", "cannot be read: write postgresql://USER"),
        ("postgresql://reader:hunter2@db:hunter2/clinic", "cannot be read: write postgresql://USER"),
        ("postgresql://reader:hunter2@127.0.0.1:1/clinic", "nobody listens there"),
        ("postgresql://reader:hunter2@nowhere.invalid/clinic", "the host has no address"),
    ],
)
def test_an_address_that_does_not_work_is_not_repeated(address: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        sql(address, "SELECT 1")
    assert problem in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None, "the driver's words come with it"
    if "no SQLite file hunter2" not in problem:
        assert not any(word in str(raised.value) for word in ("hunter2", "ter2"))
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_database_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("age,sick\n" * 1000)
    with pytest.raises(DataError, match="not a database"):
        sql(url(tmp_path / "x.db"), "SELECT 1 FROM sqlite_master")


@pytest.mark.parametrize(
    ("host", "more", "due"),
    [
        ("db.example", "", {"sslmode": "verify-full", "sslrootcert": "system"}),
        ("db.example", "?sslrootcert=ca.pem", {"sslmode": "verify-full"}),
        ("db.example", "?sslmode=require", {}),
        ("localhost", "", {}),
        ("127.0.0.1", "", {}),
        ("", "?host=/var/run/postgresql", {}),
        ("", "", {"sslmode": "verify-full", "sslrootcert": "system"}),  # whom PGHOST names; no socket minds
        ("", "?host=localhost,db.example", {"sslmode": "verify-full", "sslrootcert": "system"}),
    ],
)
def test_over_a_network_the_server_has_to_prove_who_it_is(host: str, more: str, due: dict[str, Any]) -> None:
    from sqlalchemy import make_url

    from parley.learning.sql import _secured

    assert _secured(make_url(f"postgresql://reader@{host}/clinic{more}")) == due


def test_numbers_survive_to_the_last_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    numbers = [*rng.normal(size=200).tolist(), 5e-324, math.pi * 1e300]
    with closing(sqlite3.connect(tmp_path / "n.db")) as made:
        made.execute("CREATE TABLE n (at INTEGER, x REAL)")
        made.executemany("INSERT INTO n VALUES (?, ?)", enumerate(numbers))
        made.commit()
    kept = tmp_path / "n.jsonl"
    with opened(url(tmp_path / "n.db"), "SELECT x FROM n ORDER BY at") as (names, rows):
        kept.write_text("".join(json_lines(names, rows)))
    found = read([kept], Layout("jsonl"), "x")
    assert isinstance(found, Table)
    assert found.columns == {"x": tuple(numbers)}


CELLS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.lists(CELLS | st.text(), min_size=2, max_size=2)), st.sampled_from(["a", "Ä b", "\u2028", '"']))
def test_any_row_survives_its_line(rows: list[list[Any]], name: str) -> None:
    raw = "".join(json_lines([name, "other"], iter(rows))).encode("ascii")
    found = read([Path("rows.jsonl")], Layout("jsonl"), "other", [raw])
    assert isinstance(found, Table)
    held = list(zip(*found.columns.values(), strict=True))
    assert [[(type(cell), cell) for cell in row] for row in held] == [
        [(type(cell), cell) for cell in row] for row in rows
    ]
    assert list(found.columns) == [name.strip(), "other"]


@pytest.mark.parametrize("query", ["VACUUM INTO '{}'", "ATTACH '{}' AS other", "ATTACH 'file:{}?mode=rwc' AS other"])
def test_no_query_makes_a_file_beside_the_database(database: Path, query: str) -> None:
    beside = database.with_name("copy.db")
    with pytest.raises(DataError, match="give a query that only reads"):
        sql(url(database), query.format(beside))
    assert not beside.exists()
