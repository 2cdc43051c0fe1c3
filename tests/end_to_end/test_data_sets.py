"""Real processes, one of whose parties has two data sets, and the one that the run is about in a database."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation
from parley.federation.manifest import Operator
from parley.party.record_check import seal_node
from parley.privacy.ledger import Ledger
from parley.study.model_file import load
from parley.study.study import Study
from tests.support.until import until

UNITS = 400
SECRET_PLACE = "clinic-of-hunter2.db"
COLUMNS = {
    "intercept": True,
    "target": {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]},
    "features": [{"name": "age", "low": 20, "high": 90}, {"name": "pulse", "low": 40, "high": 180}],
}
STUDY = Study(
    COLUMNS,
    run="heart-1",
    federation="cardio",
    epsilon=4.0,
    algorithm={"name": "ddp-srm", "gradient_norm": 1.0, "difference_norm": 0.1, "gamma": 0.1, "batch": 80, "passes": 8},
    parties={"hospital-a": UNITS, "hospital-b": UNITS},
    data_sets={"hospital-a": "cardiology"},
    aggregators=(Operator("north", "North Trust"), Operator("south", "South Foundation")),
    coordinator=Operator("lead", "University Hospital"),
)
TWO = """
[[data]]
name = "cardiology"
query = "SELECT pulse, sick, age FROM visits"
url_file = "database.url"
schema = "schema.toml"
population = "records"
[[data]]
name = "staff"
files = ["{staff}"]
schema = "schema.toml"
population = "records"
"""


def rows(seed: int) -> list[tuple[float, float, int]]:
    rng = np.random.default_rng(seed)
    age, pulse = rng.uniform(20, 90, UNITS).round(1), rng.uniform(40, 180, UNITS).round()
    return [(float(a), float(p), int(a + 0.2 * p > 80)) for a, p in zip(age, pulse, strict=True)]


def csv(path: Path, seed: int) -> Path:
    path.write_text("age,pulse,sick\n" + "".join(f"{a},{p},{s}\n" for a, p, s in rows(seed)))
    return path


def prepare(home: Path, staff: Path) -> None:
    """As its operator does; then the database goes away."""
    with closing(sqlite3.connect(home / SECRET_PLACE)) as database:
        database.execute("CREATE TABLE visits (age REAL, pulse REAL, sick INTEGER)")
        database.executemany("INSERT INTO visits VALUES (?, ?, ?)", rows(1))
        database.commit()
    (home / "database.url").write_text(f"sqlite:///{SECRET_PLACE}")
    (home / "database.url").chmod(0o600)
    head, found, _ = (home / "node.toml").read_text().partition("[data]")
    assert found
    budget = (home / "node.toml").read_text().partition("[budget]")[2]
    (home / "node.toml").write_text(f"{head}{TWO.format(staff=staff)}\n[budget]{budget}")
    policy = (home / "policy.toml").read_text()
    (home / "policy.toml").write_text(f'data_sets = ["cardiology"]\n{policy}')
    assert all(seal_node(home, name).fits for name in ("cardiology", "staff"))
    (home / SECRET_PLACE).unlink()


@pytest.mark.slow
def test_a_run_on_one_of_them_ends_with_a_model(tmp_path: Path) -> None:
    manifest = STUDY.manifest()
    data = {"hospital-a": [csv(tmp_path / "staff.csv", 9)], "hospital-b": [csv(tmp_path / "b.csv", 2)]}
    with LocalFederation(tmp_path / "nodes", manifest, data, evaluation=[csv(tmp_path / "test.csv", 3)]) as federation:
        home = federation.parties[0].folder
        prepare(home, tmp_path / "staff.csv")
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        *_, (row, _) = coordinator.follow(coordinator.submit(manifest))
        assert row.state is State.finished, (row.outcome, federation.coordinator.tail(), federation.parties[0].tail())
        for node in federation.parties:
            until(partial(_ended, node.folder))
    model = load(federation.coordinator.folder / "models" / "heart-1.npz")
    low, high = model.predict_proba([{"age": 22, "pulse": 45}, {"age": 88, "pulse": 175}])[:, -1]
    assert low < 0.5 < high  # 0.23 and 0.70, whose deviations are 0.014 and 0.022
    with closing(Ledger.open(home / "state" / "ledger.sqlite")) as ledger:
        assert list(ledger.populations) == ["records"]
        sealed = ledger.identity(f"{a}\x1f{p}\x1f{s}".encode() for a, p, s in rows(1))
        assert ledger.runs["heart-1"].content == sealed.digest, "charged for the rows of the database"
    for path in (tmp_path / "nodes").rglob("*"):
        if path.is_file() and path != home / "database.url":
            assert b"hunter2" not in path.read_bytes(), path


def _ended(folder: Path) -> bool:
    with closing(Ledger.open(folder / "state" / "ledger.sqlite")) as ledger:
        return ledger.runs["heart-1"].ended
