"""Rows of a database are taken by the operator alone; runs are answered from the sealed file, and from nothing else."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.attacks.documents import write_party
from parley.cli.commands.doctor import examine
from parley.cli.commands.party import app as party_app
from parley.cli.commands.schema import app
from parley.learning.errors import DataError, SchemaError
from parley.node.data_sets import DataSet, Query
from parley.node.doctor import FAILED, OK, UNKNOWN, WARNING
from parley.node.errors import NodeError
from parley.party.process import party_node, settings_of
from parley.party.record_check import seal_node
from parley.party.seal import Taken, taken, verified
from parley.party.snapshot import age, take
from tests.support.documents import SCHEMA, manifest
from tests.support.examined import by_check
from tests.support.memories import POINT
from tests.support.party_process import EVERYONE, Running, charged
from tests.support.stage import LEAD, NORTH, SOUTH, Stage, question
from tests.support.until import until

QUERY = "SELECT sick, pulse, age FROM visits ORDER BY age"
SECRET = "hunter2"


@pytest.fixture
def node(stage: Stage) -> Path:
    """Whose records lie in a database; sealed."""
    database(stage.node)
    write(stage)
    assert seal_node(stage.node).fits
    return stage.node


def database(folder: Path, shift: float = 0.0) -> None:
    rows = [line.split(",") for line in (folder / "records.csv").read_text().splitlines()[1:]]
    (folder / "clinic.db").unlink(missing_ok=True)
    with closing(sqlite3.connect(folder / "clinic.db")) as made:
        made.execute("CREATE TABLE visits (age REAL, pulse REAL, sick INTEGER)")
        cells = [(float(a) + shift, float(p), int(s)) for a, p, s in rows]
        made.executemany("INSERT INTO visits VALUES (?, ?, ?)", cells)
        made.commit()


def write(stage: Stage, query: str = QUERY, url: str = "sqlite:///clinic.db", mode: int = 0o600) -> None:
    (stage.node / "database.url").write_text(url + "\n")
    (stage.node / "database.url").chmod(mode)
    data = DataSet(
        files=(stage.node / "state" / "snapshot.jsonl",),
        schema=stage.node / "schema.toml",
        population="patients",
        query=Query(query, stage.node / "database.url"),
    )
    ports = {name.name: stage.ports[name] for name in (NORTH, SOUTH)}
    write_party(stage.node, ports, stage.ports[LEAD], data=(data,))


def held(node: Path) -> DataSet:
    return party_node(node).data[0]


def holds(node: Path) -> bool:
    settings = settings_of(party_node(node))
    return verified(settings.seal(held(node)), held(node)).seal.taken is not None


def test_the_rows_are_kept_whole_and_for_the_owner_alone(node: Path) -> None:
    path = node / "state" / "snapshot.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert (lines[0], len(lines)) == (["sick", "pulse", "age"], 301)
    assert [row[2] for row in lines[1:]] == sorted(row[2] for row in lines[1:])
    assert holds(node)


@pytest.mark.usefixtures("verified_in_process")
def test_a_run_is_answered_without_a_database_and_without_its_address(stage: Stage, node: Path) -> None:
    """Neither what it answers nor when can depend on what becomes of them."""
    (node / "clinic.db").unlink()
    (node / "database.url").unlink()
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        stage.coordinator.ask(question(made, 1, (POINT, np.zeros(3))))
        until(lambda: sorted(stage.a.payloads) == [0, 1])


@pytest.mark.usefixtures("verified_in_process")
def test_a_run_under_way_keeps_its_rows_and_one_that_was_left_does_not(stage: Stage, node: Path) -> None:
    made, rows = manifest(**EVERYONE), node / "state" / "snapshot.jsonl"
    before = rows.read_bytes()
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        database(node, shift=0.05)
        done = CliRunner().invoke(app, ["check", str(node)])
        assert (done.exit_code, rows.read_bytes()) == (0, before)
        assert "the database was not asked: heart-1 goes on with the rows that are here" in done.output
        assert json.loads(CliRunner().invoke(app, ["check", str(node), "--json"]).output)["under_way"] == ["heart-1"]
        (node / "state" / "seal.json").unlink()
        assert CliRunner().invoke(app, ["check", str(node)]).exit_code == 0
        assert holds(node)
        stage.coordinator.ask(question(made, 1, (POINT, np.zeros(3))))
        until(lambda: sorted(stage.a.payloads) == [0, 1])
    assert CliRunner().invoke(party_app, ["withdraw", str(node), "heart-1", "--by", "Dr. Ada Osei"]).exit_code == 0
    assert "taken from the database now" in CliRunner().invoke(app, ["check", str(node)]).output
    assert rows.read_bytes() != before


def test_a_database_that_changes_changes_nothing_before_its_operator_looks_again(node: Path) -> None:
    before = (node / "state" / "snapshot.jsonl").read_bytes()
    database(node, shift=0.05)
    assert holds(node)
    assert (node / "state" / "snapshot.jsonl").read_bytes() == before
    assert seal_node(node).fits
    assert (node / "state" / "snapshot.jsonl").read_bytes() != before
    assert holds(node)


def test_a_query_that_fails_leaves_what_was_sealed_and_rows_that_do_not_fit_end_it(stage: Stage, node: Path) -> None:
    before = (node / "state" / "snapshot.jsonl").read_bytes()
    write(stage, "SELECT sick, pulse, agee FROM visits")
    with pytest.raises(DataError, match="no such column: agee"):
        seal_node(node)
    (node / "clinic.db").rename(node / "away.db")
    write(stage)
    with pytest.raises(DataError, match=r"no SQLite file clinic\.db"):
        seal_node(node)
    assert holds(node)
    assert (node / "state" / "snapshot.jsonl").read_bytes() == before
    assert sorted(path.suffix for path in (node / "state").glob("*snapshot*")) == [".jsonl"]
    (node / "away.db").rename(node / "clinic.db")
    write(stage, QUERY.replace("pulse", "'fast' AS pulse"))
    assert seal_node(node).problems == ["snapshot.jsonl, line 2, column pulse: 'fast' is not a number"]
    settings = settings_of(party_node(node))
    assert taken(settings.seal(held(node))) is None
    assert by_check(examine(node))["seal"].problem.startswith("the records were not sealed yet")


def test_rows_that_are_exchanged_on_disk_break_the_seal(node: Path) -> None:
    path = node / "state" / "snapshot.jsonl"
    path.write_text(path.read_text().replace("1,", "0,", 1))
    assert "snapshot.jsonl was changed since it was sealed" in by_check(examine(node))["seal"].problem


def test_an_address_that_others_may_read_is_refused_before_it_is_used(stage: Stage, node: Path) -> None:
    write(stage, mode=0o640)
    with pytest.raises(DataError, match=r"database\.url has mode 640, and a password may be in it: chmod 600"):
        seal_node(node)
    (node / "database.url").unlink()
    with pytest.raises(DataError, match=r"database\.url cannot be read .*: correct \[data\] url_file"):
        seal_node(node)
    os.mkfifo(node / "database.url", 0o600)
    with pytest.raises(DataError, match=r"database\.url is no regular file: correct \[data\] url_file"):
        seal_node(node)


@pytest.mark.slow
def test_the_address_is_in_no_output_and_in_no_file_of_the_node(
    stage: Stage, node: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever goes wrong with it, and in the arguments of no process."""
    for url in (f"postgresql://reader:{SECRET}@127.0.0.1:1/x", f"postgresql://a:{SECRET}@b:{SECRET}/x", f"{SECRET}://"):
        write(stage, url=url)
        for command in (["check", str(node)], ["check", str(node), "--json"]):
            done = CliRunner().invoke(app, command)
            assert done.exit_code != 0
            assert SECRET not in done.output + str(done.exception)
        done_apart = subprocess.run(
            [sys.executable, "-m", "parley.cli.main", "schema", "check", str(node)], capture_output=True, check=False
        )
        assert done_apart.returncode != 0
        assert SECRET.encode() not in done_apart.stdout + done_apart.stderr
        assert SECRET not in CliRunner().invoke(party_app, ["status", str(node)]).output
        assert SECRET not in "".join(finding.problem + finding.fix for finding in examine(node))
    assert SECRET not in "".join(capfd.readouterr())
    told = [path for path in node.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert told == [node / "database.url"]


def test_what_a_file_looks_like_is_not_said_of_a_query(stage: Stage, node: Path) -> None:
    schema = (node / "schema.toml").read_text()
    for line in ('format = "parquet"', 'delimiter = ";"', "header = false\ncolumns = ['a']"):
        stage.write_schema(f"{line}\n{schema}")
        with pytest.raises(SchemaError, match=r"schema\.toml says what a file looks like, and a query gives these"):
            seal_node(node)
    stage.write_schema(f'missing = ["", "none"]\n{schema}')
    assert seal_node(node).fits


def test_the_operator_is_told_how_old_the_rows_are(stage: Stage, node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> tuple[str, str]:
        found = by_check(examine(node))["database"]
        return found.state, found.problem

    assert look() == (OK, "runs use rows that were taken less than a minute ago, not the database as it is now")
    body = json.loads(CliRunner().invoke(party_app, ["status", str(node), "--json"]).output)
    (data,) = body["data"]
    assert (data["sealed"], data["population"], data["age"]) == (True, "patients", "less than a minute")
    assert "sealed, taken from the database less than" in CliRunner().invoke(party_app, ["status", str(node)]).output
    write(stage, QUERY + ", pulse")
    assert look()[0] == WARNING
    assert look()[1].endswith("the query was changed since")
    (node / "state" / "seal.json").unlink()
    assert look() == (UNKNOWN, "no rows were taken from it yet")
    assert by_check(examine(node))["seal"].state == FAILED
    monkeypatch.setattr("time.time", lambda: 1e9)
    ages = [age(Taken(1e9 - seconds, "")) for seconds in (-5, 59, 60, 7199, 7200, 86400, 2e6)]
    assert ages == ["less than a minute"] * 2 + ["1 minute", "1 hour", "2 hours", "1 day", "23 days"]


def test_without_a_schema_the_rows_are_taken_for_a_draft_of_one(node: Path) -> None:
    """Which says their form; and then nothing more than bounds is missing."""
    for name in ("schema.toml", "state/snapshot.jsonl", "state/seal.json"):
        (node / name).unlink()
    with pytest.raises(NodeError, match=r"there is no schema\.toml yet: `parley schema draft .*snapshot\.jsonl -o"):
        seal_node(node)
    rows = node / "state" / "snapshot.jsonl"
    done = CliRunner().invoke(app, ["draft", str(rows), "-o", str(node / "schema.toml"), "--target", "sick"])
    assert done.exit_code == 0, done.output
    text = (node / "schema.toml").read_text()
    assert 'format = "jsonl"' in text
    with pytest.raises(SchemaError, match="draft"):
        seal_node(node)
    lines = [line for line in SCHEMA.splitlines() if not line.startswith("format")]
    (node / "schema.toml").write_text("\n".join(['format = "jsonl"', *lines]) + "\n")
    assert seal_node(node).fits


def test_rows_that_no_data_set_needs_any_more_are_pointed_at(stage: Stage, node: Path) -> None:
    assert "data snapshot.jsonl" not in by_check(examine(node))
    stage.write_node()
    found = by_check(examine(node))["data snapshot.jsonl"]
    assert (found.state, found.fix.startswith(f"remove {node / 'state' / 'snapshot.jsonl'}")) == (WARNING, True)


def test_paths_of_an_address_are_from_the_nodes_folder_wherever_the_command_runs(
    node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = Path(os.path.relpath(node, tmp_path))
    assert seal_node(relative).fits
    assert take(held(relative), relative).query == taken(settings_of(party_node(node)).seal(held(node))).query  # type: ignore[union-attr]


def test_a_query_in_a_file_is_read_and_its_slips_are_named(stage: Stage, node: Path) -> None:
    text = (node / "node.toml").read_text().replace(f'"{QUERY}"', '"visits.sql"')
    (node / "node.toml").write_text(text)
    with pytest.raises(DataError, match=r"visits\.sql cannot be read .*: correct \[data\] query"):
        seal_node(node)
    (node / "visits.sql").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"visits\.sql is not UTF-8 text"):
        seal_node(node)
    (node / "visits.sql").write_text(f"-- who came\n{QUERY}\n")
    assert seal_node(node).fits


def test_the_process_that_answers_runs_knows_no_database(node: Path) -> None:
    code = "import sys, parley.party.process; print(sorted({m.split('.')[0] for m in sys.modules} & {'sqlalchemy', "
    code += "'psycopg'}), 'parley.learning.sql' in sys.modules, 'parley.party.snapshot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False", "False"]
