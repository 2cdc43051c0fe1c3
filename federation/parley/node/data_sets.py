"""Which data a party has: one data set in [data], or several by name, each in [[data]].

    [data]                               [[data]]                             [[data]]
    files = ["records.csv"]              name = "cardiology"                  name = "staff"
    schema = "schema.toml"               query = "cardiology.sql"             files = ["staff.parquet"]
    population = "patients"              url_file = "database.url"            schema = "staff.toml"
                                         schema = "cardiology.toml"           population = "staff"
                                         population = "patients"

A query's rows are read by `parley schema check` alone, which keeps them in a file of the node's state; what takes part
in runs knows that file and no database. `query` is the path of a .sql file, or the query itself; `url_file` is mode
600 and holds the address of the database with whatever password it needs. Data sets under one population share one
budget, whichever of them a manifest names.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.federation.fields import Fields

SQL = ".sql"
MOST_DATA_SETS = 64


@dataclass(frozen=True)
class Query:
    """Where records come from that lie in a database."""

    text: str | Path
    """The query, or the file that has it."""
    url_file: Path


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One of a party's: its files, what they are, and whose."""

    name: str = ""
    """As a manifest calls it; empty for the one of [data]."""
    files: tuple[Path, ...]
    """In the order of node.toml: images and labels, or parts, belong together by it. Of a query: what it last gave."""
    schema: Path
    """What the records are, as this institution says: `parley.learning.holding`."""
    population: str
    """Whose records these are, in the ledger: budgets add up over everything under one name."""
    query: Query | None = None
    excluded: Path | None = None
    """Whose records count for nothing: a list that never leaves this machine."""

    @property
    def called(self) -> str:
        """For its operator, in a sentence."""
        return f"data set {self.name}" if self.name else "the records"


def state_file(state: Path, name: str, stem: str, suffix: str) -> Path:
    """A file of the node's state that belongs to one data set."""
    return state / (f"{stem}-{name}{suffix}" if name else f"{stem}{suffix}")


def data_sets(fields: Fields, home: Path, state: Path) -> tuple[DataSet, ...]:
    """From node.toml: [data], or [[data]] with a name each."""
    if not fields.is_list("data"):
        return (_data_set(fields.table("data"), home, state, ""),)
    tables = fields.tables("data")
    if not 1 <= len(tables) <= MOST_DATA_SETS:
        raise fields.refuse("data", f"are {len(tables)} data sets: give 1 to {MOST_DATA_SETS}")
    found = tuple(_data_set(table, home, state, table.label("name")) for table in tables)
    names = [each.name for each in found]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise tables[index].refuse("name", f"is {name!r} twice: give each data set a name of its own")
    return found


def data_tables(sets: tuple[DataSet, ...], home: Path) -> dict[str, Any] | list[dict[str, Any]]:
    """What `data_sets` reads."""
    tables = [_table(each, home) for each in sets]
    return tables if sets[0].name else tables[0]


def path_text(path: Path, home: Path) -> str:
    """From the node's folder where it lies there: the folder may be mounted elsewhere."""
    return path.relative_to(home).as_posix() if path.is_relative_to(home) else str(path)


def files_of(fields: Fields, home: Path) -> tuple[Path, ...]:
    """In the order of the file: images and labels, or parts, belong together by it."""
    names = fields.text_list("files")
    if not names:
        raise fields.refuse("files", "is empty: name at least one")
    return tuple(home / name for name in names)


def _data_set(fields: Fields, home: Path, state: Path, name: str) -> DataSet:
    query = None
    if fields.has("query"):
        if fields.has("files"):
            raise fields.refuse("files", "and query are both there: the records are in files, or a query gives them")
        text = fields.several_lines("query")
        given: str | Path = home / text if "\n" not in text and text.endswith(SQL) else text
        query = Query(given, home / fields.text("url_file"))
    files = files_of(fields, home) if query is None else (state_file(state, name, "snapshot", ".jsonl"),)
    schema, population = home / fields.text("schema"), fields.text("population")
    excluded = home / fields.text("excluded") if fields.has("excluded") else None
    fields.finish()
    return DataSet(name=name, files=files, schema=schema, population=population, query=query, excluded=excluded)


def _table(data: DataSet, home: Path) -> dict[str, Any]:
    body: dict[str, Any] = {"name": data.name} if data.name else {}
    if data.query is None:
        body["files"] = [path_text(each, home) for each in data.files]
    else:
        text = data.query.text
        body["query"] = path_text(text, home) if isinstance(text, Path) else text
        body["url_file"] = path_text(data.query.url_file, home)
    body |= {"schema": path_text(data.schema, home), "population": data.population}
    return body if data.excluded is None else body | {"excluded": path_text(data.excluded, home)}
