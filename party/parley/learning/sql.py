"""Records that lie in a database: the rows of one query, read in a read-only transaction.

    sql("postgresql://reader@db.example/clinic", "SELECT age, pulse, sick FROM visits")     # study.sql: a table

PostgreSQL and SQLite: for both it is tested that nothing can be written, and every other database is refused. Rows
arrive a thousand at a time and nothing else is kept of them. Needs SQLAlchemy and psycopg (the `sql` extra), which are
imported when asked for. No message holds the database's address: it has a password in it. What the database says of a
query may quote the query and a cell, and is for local eyes.
"""

import contextlib
import datetime as dt
import decimal
import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from parley.federation.extras import install
from parley.learning.errors import DataError
from parley.learning.readers import Origin, Table

Cell = str | int | float | bool | None
CONNECT_SECONDS = 10
ROWS_AT_ONCE = 1000
LONGEST_MESSAGE = 300
FORM = "postgresql://USER:PASSWORD@HOST:5432/DATABASE or sqlite:///FILE, with %40 for an @ in a password"
REFUSALS = {
    "25006": "give a query that only reads",
    "28": "correct user and password",
    "3D": "correct the name of the database",
    "42501": "have its owner grant SELECT to this user",
    "42601": "correct the query: one SELECT, without a second statement",
    "42703": "correct the column's name",
    "42P01": "correct the table's name, with its schema before it",
}
"""By the beginning of PostgreSQL's code for an error: what to change."""


def sql(url: str, query: str) -> Table:
    """The rows of one query as a table, which `Study.simulate` takes as a party's records; NULL is an empty cell.

    `url` is postgresql://USER:PASSWORD@HOST:5432/DATABASE or sqlite:///FILE. Nothing can be written, and no message
    holds the address. Needs the extra `sql`.

    >>> import sqlite3
    >>> with sqlite3.connect("clinic.db") as clinic:
    ...     _ = clinic.executescript("CREATE TABLE visits (age REAL, sick INTEGER); INSERT INTO visits VALUES (63, 1)")
    >>> study.sql("sqlite:///clinic.db", "SELECT age, sick FROM visits").columns
    {'age': (63.0,), 'sick': (1,)}
    """
    with opened(url, query) as (names, rows):
        held = list(rows)
    columns: list[Sequence[Any]] = list(zip(*held, strict=True)) if held else [() for _ in names]
    return Table(dict(zip(names, columns, strict=True)), len(held), Origin("the query"))


def json_lines(names: Sequence[str], rows: Iterator[list[Cell]]) -> Iterator[str]:
    """A query's rows as `parley.learning.readers` reads them with `format = "jsonl"`: nothing is lost on the way."""
    yield json.dumps(list(names)) + "\n"
    for row in rows:
        yield json.dumps(row, allow_nan=False) + "\n"


@contextlib.contextmanager
def opened(url: str, query: str) -> Iterator[tuple[list[str], Iterator[list[Cell]]]]:
    """The names of the columns, and the rows as they come."""
    try:
        import sqlalchemy
        from sqlalchemy import exc
    except ImportError:
        raise DataError(install("sqlalchemy")) from None
    engine = _engine(url)
    try:
        with contextlib.ExitStack() as stack:
            try:
                connection = stack.enter_context(engine.connect())
            except (exc.SQLAlchemyError, sqlite3.Error) as error:
                raise DataError(_no_connection(error)) from None
            try:
                result = _executed(connection, query)
                yield _names(result), _rows(result)
            except exc.DBAPIError as error:
                raise DataError(_refusal(error.orig, _password(url))) from None
            except sqlalchemy.exc.SQLAlchemyError as error:
                raise DataError(f"the query cannot be read ({type(error).__name__}): simplify it") from None
    finally:
        engine.dispose()


def _engine(text: str) -> Any:
    """An engine that cannot write."""
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.pool import NullPool

    try:
        url = make_url(text.strip())
        kind = url.get_backend_name()
    except Exception:  # whatever it is, it may quote the password
        raise DataError(f"the database's address cannot be read: write {FORM}") from None
    if kind == "sqlite":
        return create_engine("sqlite://", creator=lambda: _read_only_file(url.database), poolclass=NullPool)
    if kind != "postgresql":
        raise DataError("the database is neither PostgreSQL nor SQLite: export what you need to a CSV or Parquet file")
    if not url.host and "host" not in url.query and not url.database:
        raise DataError(f"the database's address has no host and no database: write {FORM}")
    if "@" in (url.host or ""):
        raise DataError(f"the database's address has two @: write {FORM}")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise DataError(install("psycopg")) from None
    arguments = {"connect_timeout": CONNECT_SECONDS, "fallback_application_name": "parley", **_secured(url)}
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={name: value for name, value in arguments.items() if name not in url.query},
    )


def _secured(url: Any) -> dict[str, str]:
    """Over a network the server has to prove who it is, unless the address says otherwise."""
    host = str(url.query.get("host") or url.host or "")
    if host.startswith("/") or host in ("localhost", "127.0.0.1", "::1") or "sslmode" in url.query:
        return {}
    return {"sslmode": "verify-full"} | ({} if "sslrootcert" in url.query else {"sslrootcert": "system"})


def _read_only_file(path: str | None) -> sqlite3.Connection:
    """Never made where it is not there: sqlite3 would, and a query of nothing gives nothing."""
    if not path or path == ":memory:" or path.startswith("file:"):
        raise DataError("the database's address names no SQLite file: write sqlite:///FILE")
    if not Path(path).is_file():
        raise DataError(f"there is no SQLite file {Path(path).name}: correct the database's address")
    connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    connection.execute("PRAGMA query_only = ON")
    connection.set_authorizer(_this_file_alone)
    return connection


def _this_file_alone(what: int, *_: Any) -> int:
    """ATTACH and VACUUM INTO make files beside one that is open for reading only."""
    return sqlite3.SQLITE_DENY if what == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def _executed(connection: Any, query: str) -> Any:
    connection = connection.execution_options(stream_results=True, no_parameters=True, yield_per=ROWS_AT_ONCE)
    if connection.dialect.name == "postgresql":
        connection = connection.execution_options(postgresql_readonly=True)
    result = connection.exec_driver_sql(query)
    if not result.returns_rows:
        raise DataError("the query gives no table: write one SELECT")
    return result


def _names(result: Any) -> list[str]:
    names = [str(name) for name in result.keys()]  # noqa: SIM118, no dictionary
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"the query gives {twice[0]!r} twice: give one of them another name with AS")
    return names


def _rows(result: Any) -> Iterator[list[Cell]]:
    names = list(result.keys())
    for number, row in enumerate(result, 1):
        yield [_cell(value, number, name) for name, value in zip(names, row, strict=True)]


def _cell(value: Any, row: int, name: str) -> Cell:
    """As the readers of files have it: text, numbers, truth values, None."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, decimal.Decimal):  # its digits, which a float may not have
        return format(value, "f") if value.is_finite() else _not_finite(float(value))
    if isinstance(value, dt.datetime):  # a moment is one text, whatever zone the database shows it in
        moment = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        return moment.isoformat(" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if type(value).__name__ == "UUID":
        return str(value)
    raise DataError(
        f"row {row}, column {name} is {type(value).__name__}, which is no cell of a table: CAST it to a number or to "
        "text in the query, or leave it out"
    )


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _password(url: str) -> str:
    from sqlalchemy import make_url

    return str(make_url(url.strip()).password or "")


def _no_connection(error: Exception) -> str:
    """Nothing of what the driver says: where an address was misread, parts of the password stand where a host does."""
    said = str(getattr(error, "orig", error))
    signed = "add ?sslrootcert=FILE to the address"
    for sign, advice in (
        ("password authentication failed", "it refuses this user or password: correct the address"),
        ("no password supplied", "it asks for a password: write it into the address"),
        ('database "', "it has no such database, or not for this user: correct the address"),
        ("refused", "nobody listens there: correct host and port, or start it"),
        ("resolve", "the host has no address: correct it"),
        ("timeout", f"no answer within {CONNECT_SECONDS} seconds: correct host and port, or open the firewall"),
        ("root certificate", f"its certificate is not signed by a known authority: {signed}"),
        ("certificate", f"its certificate is not for this host, or its authority is unknown: {signed}"),
        ("does not support SSL", "it speaks no TLS: have it switched on, or accept that and add ?sslmode=disable"),
        ("not a database", "the file is no SQLite database: correct the address"),
    ):  # fmt: skip
        if sign in said:
            return f"the database cannot be reached: {advice}"
    return "the database cannot be reached: try the same address with psql or sqlite3 on this machine"


def _refusal(error: BaseException | None, password: str) -> str:
    diagnosis = getattr(error, "diag", None)
    said = getattr(diagnosis, "message_primary", None) or str(error)
    code = getattr(diagnosis, "sqlstate", None) or ""
    advice = next((text for start, text in REFUSALS.items() if code.startswith(start)), "correct the query")
    if "readonly" in said or "authoriz" in said:  # SQLite's words
        advice = REFUSALS["25006"]
    if password:
        said = said.replace(password, "…")
    shown = "".join(each if each.isprintable() else " " for each in said)[:LONGEST_MESSAGE]
    return f"the database refuses the query ({shown}): {advice}"
