"""A real PostgreSQL: its types, its refusals, that nothing is written, and a party whose records lie in it."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.attacks.documents import PARTY, schema_text, write_party
from parley.learning.errors import DataError
from parley.learning.sql import opened, sql
from parley.node.authority import ThrowAwayAuthority
from parley.node.data_sets import DataSet, Query
from parley.party.record_check import seal_node
from tests.support.postgresql import BIN, SECRET, Server, postgresql

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BIN is None, reason="no PostgreSQL: apt-get install postgresql")]

TYPES = """
SELECT 7::smallint AS small, 9007199254740993::bigint AS big, 0.1::float8 AS real, 1.50::numeric(10, 4) AS decimal,
       'NaN'::float8 AS nan, '-Infinity'::numeric AS low, true AS yes, false AS no, NULL::text AS nothing, '' AS empty,
       E' a;"b"\\nc' AS text, 'é'::char(3) AS padded, date '1960-02-29' AS day, time '07:30' AS hour,
       timestamp '2024-01-31 12:00:00.25' AS moment, timestamptz '2024-01-31 12:00:00+02' AS zoned,
       uuid '12345678-1234-1234-1234-123456789abc' AS id, '50%' AS percent, ':x' AS colon
"""
AS_CELLS = {
    "small": 7, "big": 9007199254740993, "real": 0.1, "decimal": "1.5000", "nan": "NaN", "low": "-Infinity",
    "yes": True, "no": False, "nothing": None, "empty": "", "text": ' a;"b"\nc', "padded": "é  ", "day": "1960-02-29",
    "hour": "07:30:00", "moment": "2024-01-31 12:00:00.250000", "zoned": "2024-01-31 10:00:00",
    "id": "12345678-1234-1234-1234-123456789abc", "percent": "50%", "colon": ":x",
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgresql() as running:
        running.do(
            "CREATE TABLE visits (age float8, pulse numeric, sick boolean, note text)",
            "INSERT INTO visits SELECT 20 + n % 70, 40 + n, n % 2 = 0, 'x' FROM generate_series(1, 100) n",
            "CREATE SEQUENCE counter",
            f"CREATE ROLE reader LOGIN PASSWORD '{SECRET}'",
            "GRANT SELECT (age, pulse, sick) ON visits TO reader",
        )
        yield running


def test_a_secret_in_the_tests_address_needs_its_escapes() -> None:
    assert {"@", ":", "/", "%"} <= set(SECRET)


def test_every_type_is_the_cell_that_the_docs_say(server: Server) -> None:
    found = sql(server.url(), TYPES)
    assert {name: cells[0] for name, cells in found.columns.items()} == AS_CELLS
    assert [type(found.columns[name][0]) for name in ("small", "real", "yes")] == [int, float, bool]


def test_a_moment_is_one_text_in_whatever_zone_the_database_shows_it(server: Server) -> None:
    server.do("ALTER ROLE owner SET timezone TO 'Asia/Tokyo'")
    assert sql(server.url(), TYPES).columns["zoned"] == (AS_CELLS["zoned"],)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT agee FROM visits", 'column "agee" does not exist): correct the column\'s name'),
        ("SELECT age FROM nowhere", 'relation "nowhere" does not exist): correct the table\'s name'),
        ("SELECT age FROM visits; COMMIT; DROP TABLE visits", "one SELECT, without a second statement"),
        ("DELETE FROM visits", "correct the query: one SELECT"),
        ("WITH gone AS (DELETE FROM visits RETURNING age) SELECT * FROM gone", "must not contain data-modifying"),
        ("SELECT nextval('counter')", "cannot execute nextval() in a read-only transaction): give a query that only"),
        ("SELECT set_config('transaction_read_only', 'off', false)", "must be set before any query"),
        ("SELECT '\\x00'::bytea AS photo", "row 1, column photo is bytes, which is no cell of a table: CAST it"),
        ("SELECT '{}'::jsonb AS body", "column body is dict"),
        ("SELECT interval '1 day' AS stay", "column stay is timedelta"),
        ("SELECT ARRAY[1] AS codes", "column codes is list"),
        ("SELECT age AS a, sick AS a FROM visits", "gives 'a' twice"),
        (f"SELECT '{SECRET}'::int", 'invalid input syntax for type integer: "…"'),
        ("SELECT 1 / (age - 50)::int FROM visits", "division by zero"),
    ],
)
def test_a_query_that_is_refused_says_what_to_change_and_nothing_was_written(
    server: Server, query: str, problem: str
) -> None:
    with pytest.raises(DataError) as raised:
        sql(server.url(), query)
    assert problem in str(raised.value)
    assert SECRET not in str(raised.value)
    assert server.do("SELECT (SELECT count(*) FROM visits), is_called FROM counter") == [(100, False)]


def test_what_a_user_may_not_read_is_said(server: Server) -> None:
    assert sql(server.url("reader"), "SELECT age FROM visits LIMIT 2").count == 2
    with pytest.raises(DataError, match="have its owner grant SELECT to this user"):
        sql(server.url("reader"), "SELECT note FROM visits")


@pytest.mark.parametrize(
    ("changes", "more", "problem"),
    [
        ({"secret": "wrong"}, "", "it refuses this user or password"),
        ({"user": "nobody-here"}, "", "it refuses this user or password"),
        ({"database": "nowhere"}, "", "it has no such database"),
        ({}, "?sslmode=verify-full&sslrootcert=/nowhere.pem", "its certificate"),
        ({}, "?sslmode=verify-full&sslrootcert=system", "its certificate is not for this host, or its authority is"),
    ],
)
def test_a_server_that_says_no_is_explained_without_its_words(
    server: Server, changes: dict[str, str], more: str, problem: str
) -> None:
    with pytest.raises(DataError) as raised:
        sql(server.url(**changes) + more, "SELECT 1")
    assert str(raised.value).startswith(f"the database cannot be reached: {problem}")
    assert not any(word in str(raised.value) for word in (SECRET, "wrong", "nobody-here", "nowhere", str(server.port)))


def test_a_server_over_a_network_is_known_by_its_certificate(server: Server) -> None:
    """What an address of another host means unless it says otherwise: `test_sql.py`."""
    known = f"?sslmode=verify-full&sslrootcert={server.certificate}"
    found = sql(server.url() + known, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    assert found.columns == {"ssl": (True,)}


def test_rows_come_as_they_are_found(server: Server) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    with opened(server.url(), endless) as (names, rows):
        assert (names, list(itertools.islice(rows, 3))) == (["x"], [[1], [2], [3]])


def test_a_partys_records_are_sealed_from_it_and_stay_when_it_is_gone(server: Server, tmp_path: Path) -> None:
    node = tmp_path / "hospital-a"
    ThrowAwayAuthority("cardio").install(node / "identity", PARTY)
    text = schema_text(units=100).replace('["1"]', '["True"]').replace('["0"]', '["False"]')
    (node / "schema.toml").write_text(text)
    (node / "database.url").write_text(server.url("reader"))
    (node / "database.url").chmod(0o600)
    data = DataSet(
        files=(node / "state" / "snapshot.jsonl",),
        schema=node / "schema.toml",
        population="patients",
        query=Query("SELECT sick, age, pulse FROM visits", node / "database.url"),
    )
    write_party(node, data=(data,))
    found = seal_node(node)
    assert (found.problems, found.units) == ([], 100)
    for path in node.rglob("*"):
        if path.is_file() and path.name != "database.url":
            assert SECRET.encode() not in path.read_bytes(), path
    before = (node / "state" / "snapshot.jsonl").read_bytes()
    server.do("UPDATE visits SET pulse = 50")
    assert (node / "state" / "snapshot.jsonl").read_bytes() == before
    assert seal_node(node).fits
    assert (node / "state" / "snapshot.jsonl").read_bytes() != before
