"""`parley study plan` is `Study.plan`, on the command line."""

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
