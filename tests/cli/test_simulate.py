"""The command on a small public data set, end to end."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from parley import study
from parley.cli.main import app
from parley.errors import ParleyError
from tests.support.studies import STUDY, write


def simulated(path: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["simulate", str(path), *more])


def body_of(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.slow
def test_simulate_trains_a_useful_model_and_speaks_json(folder: Path, workers: int) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "auto"))
    body = body_of(simulated(path, "--seeds", "2", "--workers", str(workers), "--json"))
    assert [run["seed"] for run in body["runs"]] == [0, 1]
    for run in body["runs"]:
        assert {"seed", "epsilon", "delta", "rounds", "train_loss", "test_loss", "test_error", "auc", "seconds"} <= set(
            run
        )
        assert run["gaussian_epsilon"] < run["epsilon"] <= 2.0
        assert run["gaussian_delta"] < run["delta"] == 1e-5
        assert "finite noise sampler" in run["statement"]
        # The generating model's own error is about 0.22 and its area 0.86.
        assert run["test_error"] < 0.27
        assert run["auc"] > 0.82
    assert body["mean"]["test_loss"] == pytest.approx(np.mean([run["test_loss"] for run in body["runs"]]))
    assert (body["public_test"], body["tested"], body["repeatable"]) == (True, 1000, False)
    assert set(body["not_private"]) <= set(body)


@pytest.mark.slow
def test_fresh_keys_give_another_model_each_time_and_repeatable_ones_the_same(folder: Path) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "auto"))
    losses = [
        body_of(simulated(path, "--seeds", "1", "--json", *more))["mean"]["test_loss"]
        for more in ([], [], ["--repeatable"], ["--repeatable"])
    ]
    assert losses[0] != losses[1]
    assert losses[2] == losses[3]


def test_it_writes_the_first_seeds_model_and_draws_its_curve(folder: Path) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "auto"))
    model, curve = folder / "model.npz", folder / "curve.svg"
    body = body_of(simulated(path, "--seeds", "2", "--json", "-o", str(model), "--plot", str(curve)))
    card = study.load(model).card
    assert card["evaluation"]["loss"] == pytest.approx(body["runs"][0]["test_loss"])
    assert card["epsilon"] == body["runs"][0]["epsilon"]
    assert curve.read_text().lstrip().startswith("<?xml")


@pytest.mark.slow
def test_a_screen_says_whom_the_figures_are_for_and_what_privacy_costs(folder: Path) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "auto"))
    before = study.read(path).simulate(seeds=1).fits  # of this process: other tests have the same records
    shown = simulated(path, "--seeds", "2").stdout
    fits = f"all {before + 2} fits of these records"
    for word in ("2 seeds", "without privacy", "constant", "Not private", "auc", fits):
        assert word in " ".join(shown.split()), word
    assert max(map(len, shown.splitlines())) <= 80


def test_public_records_cost_nothing_by_the_users_word(folder: Path) -> None:
    shown = simulated(write(folder, STUDY.replace("ALGORITHM", "auto")), "--seeds", "1", "--public").stdout
    assert "The records are public: nothing is charged" in shown


@pytest.mark.parametrize("more", [["-o", "train.csv"], ["-o", "records.npz"], ["-o", "m.npz", "--plot", "test.csv"]])
def test_no_file_of_records_is_written_over_and_names_are_checked_before_anything_is_trained(
    folder: Path, more: list[str]
) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "auto"))
    np.savez(folder / "records.npz", features=np.zeros(3))
    before = {each: each.read_bytes() for each in folder.iterdir()}
    found = simulated(path, *(str(folder / each) if "." in each else each for each in more))
    assert isinstance(found.exception, ParleyError), found.exception
    assert "Simulation only" not in found.output
    assert {each: each.read_bytes() for each in folder.iterdir()} == before


def test_a_study_without_records_says_what_to_give(folder: Path) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "auto").replace('train = ["train.csv"]\nparties = 3\n', ""))
    with pytest.raises(ParleyError, match=r"no records: give data to simulate, or name files in \[data\]"):
        raise simulated(path).exception or AssertionError("it ran")


def test_an_earlier_model_is_replaced_only_by_force_and_records_not_even_then(folder: Path) -> None:
    path = write(folder, STUDY.replace("ALGORITHM", "auto"))
    model = folder / "model.npz"
    assert simulated(path, "--seeds", "1", "-o", str(model)).exit_code == 0
    before = model.read_bytes()
    with pytest.raises(ParleyError, match="is there already: give another name, or --force"):
        raise simulated(path, "-o", str(model)).exception or AssertionError("it ran")
    assert model.read_bytes() == before
    assert simulated(path, "--seeds", "1", "-o", str(model), "--force").exit_code == 0
    assert model.read_bytes() != before
    np.savez(folder / "records.npz", features=np.zeros(3))
    with pytest.raises(ParleyError, match="is not a model file"):
        raise simulated(path, "-o", str(folder / "records.npz"), "--force").exception or AssertionError("it ran")
