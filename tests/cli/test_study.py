"""`parley study`: the functions of a study, on the command line."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parley import study
from parley.cli.main import app
from tests.support.studies import STUDY, write


def planned(path: Path, *more: str) -> dict[str, object]:
    result = CliRunner().invoke(app, ["study", "plan", str(path), "--json", *more])
    assert result.exit_code == 0, result.output
    body: dict[str, object] = json.loads(result.stdout.strip().splitlines()[-1])
    return body


def test_it_is_the_same_function_on_the_same_document(folder: Path) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "auto"))
    counted = planned(path)
    assert counted["parties"] == {"party-1": 1000, "party-2": 1000, "party-3": 1000}
    assert counted == json.loads(json.dumps(study.read(path).plan().as_json()))
    other = planned(path, "--records", "a=500", "--records", "b=700")
    assert other == json.loads(json.dumps(study.read(path).plan({"a": 500, "b": 700}).as_json()))
    assert planned(path, "--records", "1200")["parties"] == {"site": 1200}


@pytest.mark.parametrize("given", [["a"], ["a=x"], ["a=1", "a=2"], ["a=-1"]])
def test_records_that_are_none_are_refused(folder: Path, given: list[str]) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "auto"))
    words = [word for each in given for word in ("--records", each)]
    result = CliRunner().invoke(app, ["study", "plan", str(path), *words])
    assert "give NAME=COUNT" in str(result.exception)


def test_the_screen_names_every_adversary(folder: Path) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "auto"))
    shown = CliRunner().invoke(app, ["study", "plan", str(path)]).stdout
    for who in (
        "the coordinator",
        "all other parties",
        "that follows",
        "that lies",
        "both aggregators",
        "only the model",
    ):
        assert who in shown, who


def test_made_up_rows_are_written_as_the_studys_files_are(folder: Path, tmp_path: Path) -> None:
    path, out = write(folder, STUDY.replace("ALGORITHM", "auto")), tmp_path / "made-up.csv"
    result = CliRunner().invoke(app, ["study", "made-up", str(path), "--records", "40", "-o", str(out), "--seed", "2"])
    assert (result.exit_code, result.output) == (0, f"40 made-up rows in {out}\n")
    table = study.read(path).made_up(40, seed=2)
    found = read_rows(out)
    assert found[0] == list(table)
    assert found[1:] == [
        ["" if cell is None else str(cell) for cell in row] for row in zip(*table.values(), strict=True)
    ]


@pytest.mark.parametrize(("name", "said"), [("train.csv", "is there already"), ("no/rows.csv", "cannot be written")])
def test_made_up_rows_never_take_the_place_of_records(folder: Path, name: str, said: str) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "auto"))
    before = (folder / "train.csv").read_bytes()
    result = CliRunner().invoke(app, ["study", "made-up", str(path), "--records", "5", "-o", str(folder / name)])
    assert said in str(result.exception)
    assert (folder / "train.csv").read_bytes() == before


def read_rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


@pytest.mark.slow
def test_a_sweep_shows_what_all_of_it_costs_and_public_records_cost_nothing(folder: Path) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "dp-gd"))
    words = ["study", "sweep", str(path), "--epsilon", "0.5", "--epsilon", "1"]
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    body = json.loads(result.stdout.strip().splitlines()[-1])
    assert [each["epsilon"] for each in body["trials"]] == [0.5, 1.0]
    assert body["cost"]["fits"] == 2
    assert body["not_private"] == ["trials"]
    free = CliRunner().invoke(app, [*words, "--public"])
    assert "nothing is charged" in free.output
