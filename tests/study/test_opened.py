"""A study with somebody's PyTorch module: simulated, drafted, saved, and asked only where its code is allowed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.errors import ParleyError
from parley.federation.manifest import Manifest
from parley.learning.errors import ModelError, ModelFileError
from parley.models.module_spec import digest_of
from parley.study import load, read
from parley.study.estimators import PrivateClassifier
from parley.study.plan import PLACEHOLDERS
from parley.study.result import Result
from parley.study.study import Study
from tests.study.test_plan import QUICK
from tests.support.command import parley
from tests.support.own_modules import CLASSES, SCHEMA, OwnPackage, own_package

pytest.importorskip("torch")
pytestmark = pytest.mark.slow
KIND = "torch:users_models.nets:build"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnPackage:
    return own_package(tmp_path, monkeypatch)


def study(**changes: Any) -> Study:
    return Study(
        SCHEMA, **{"model": {"kind": KIND, "options": {"width": 4}}, "epsilon": 3.0, "algorithm": QUICK, **changes}
    )


@pytest.fixture
def result(package: OwnPackage) -> Result:
    wanted = study()
    return wanted.simulate(wanted.made_up(300), test=wanted.made_up(80, seed=1), seeds=2)


def test_it_is_simulated_and_its_card_names_the_code(package: OwnPackage, result: Result) -> None:
    spec = package.spec(width=4)
    model = result.model
    assert model.card["module"] == {"kind": KIND, "digest": digest_of(spec, CLASSES), "torch": torch_version()}
    assert model.description["model"]["digest"] == spec.digest
    assert len(model.description["model"]["probe"]) > 0
    assert set(result.quality) >= {"loss", "accuracy"}
    page = model.card_page().markdown()
    for said in (KIND, spec.digest or "", torch_version(), "Only that very code can use it"):
        assert said in page.replace("\\_", "_"), said


def test_a_model_file_is_asked_only_where_its_module_is_allowed(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "model.npz")
    rows = [[0.1] * 6, [0.9] * 6]
    closed = load(tmp_path / "model.npz")
    assert closed.card["records"] == "made up"
    for ask in (closed.predict, closed.predict_proba):
        with pytest.raises(ModelFileError, match=f"the module {KIND}, whose code would run here.*--allow {KIND}"):
            ask(rows)
    with pytest.raises(ModelFileError, match="whose code would run here"):
        load(tmp_path / "model.npz", allow="torch:users_models.nets:mixes").predict(rows)
    opened = load(tmp_path / "model.npz", allow=KIND)
    assert opened.predict(rows).tolist() == result.predict(rows).tolist()
    assert np.allclose(opened.predict_proba(rows).sum(axis=1), 1)


def test_a_file_whose_code_has_changed_is_refused(package: OwnPackage, result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "model.npz")
    source = package.folder / "nets.py"
    source.write_text(source.read_text() + "\n# another line\n")
    with pytest.raises(ModelError, match=r"sha256:.* was agreed on: install the"):
        load(tmp_path / "model.npz", allow=[KIND]).predict([[0.1] * 6])


def test_who_edits_the_module_and_simulates_again_gets_the_new_one(package: OwnPackage) -> None:
    before, digest = study().new_model(), study().model_table()["digest"]
    assert study().new_model() is before
    source = package.folder / "nets.py"
    source.write_text(source.read_text().replace("torch.tanh(self.first(rows))", "torch.relu(self.first(rows))"))
    after = study().new_model()
    assert after is not before
    assert study().model_table()["digest"] != digest


def test_exports_say_what_they_cannot(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "model.npz")
    for model in (result.model, load(tmp_path / "model.npz")):
        for export in (model.to_json, model.to_onnx, model.to_sklearn):
            with pytest.raises(ModelFileError, match=r"in no export of .* `parley export --torch`"):
                export()


def test_a_manifest_says_digest_probe_and_dimension_and_is_read_without_the_code(
    package: OwnPackage, tmp_path: Path
) -> None:
    names = {name: PLACEHOLDERS[name] for name in ("aggregators", "coordinator")}
    wanted = study(run="nets-1", federation="trial", parties={"a": 300, "b": 300}, **names)
    wanted.write(tmp_path / "study.toml")
    assert read(tmp_path / "study.toml").model == wanted.model
    manifest = read(tmp_path / "study.toml").manifest()
    body = manifest.as_json()["model"]
    assert body["kind"] == KIND
    assert body["digest"] == package.spec(width=4).digest
    assert body["dimension"] == manifest.model.dimension == 6 * 4 + 4 + 4 * 3 + 3
    assert len(body["probe"]) > 0
    (package.folder / "nets.py").unlink()
    assert Manifest.from_canonical(manifest.canonical) == manifest


def test_a_study_of_a_module_that_mixes_records_is_refused_when_it_is_opened(package: OwnPackage) -> None:
    mixing = study(model={"kind": "torch:users_models.nets:mixes"})  # nothing has run yet
    with pytest.raises(ParleyError, match=r"mixes records: use nn\.GroupNorm"):
        mixing.plan(600)


def test_a_run_starts_from_a_module_of_an_earlier_one(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "model.npz")
    again = study(start=tmp_path / "model.npz")
    found = again.simulate(again.made_up(200), test=again.made_up(50, seed=1), seeds=1)
    assert found.model.card["start"]["digest"] == load(tmp_path / "model.npz").card["digest"]


def test_an_estimator_takes_a_module(package: OwnPackage) -> None:
    draw = np.random.default_rng(0)
    rows = draw.uniform(0, 1, (300, 6))
    labels = np.array(["a", "b", "c"])[(rows[:, 0] * 3).astype(int)]
    model = PrivateClassifier(5.0, bounds=(0, 1), classes=["a", "b", "c"], model={"kind": KIND}, algorithm=QUICK)
    assert model.fit(rows, labels).predict_proba(rows[:4]).shape == (4, 3)
    assert model.to_model().card["module"]["kind"] == KIND


def test_predict_runs_the_code_only_when_it_is_told(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "model.npz")
    np.savez(tmp_path / "rows.npz", X=np.full((3, 6), 0.5), kind=np.array(["a", "b", "c"]))
    call = ("predict", str(tmp_path / "model.npz"), str(tmp_path / "rows.npz"), "-o", str(tmp_path / "out.csv"))
    refused = parley(*call)
    assert (refused.returncode, "whose code would run here" in refused.stderr) == (2, True)
    done = parley(*call, "--allow", KIND)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 4


def torch_version() -> str:
    from importlib.metadata import version

    return version("torch")


def test_the_fields_of_a_simulation_are_json(result: Result) -> None:
    assert json.loads(json.dumps(result.as_json()))["runs"]


@pytest.mark.parametrize("kind", ["torch:subprocess:call", "torch:os.path:exists", "torch:torch.hub:load"])
def test_a_study_has_nothing_called_that_is_nobodys_network(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ParleyError, match="name a function of a package that has your network"):
        study(model={"kind": kind, "options": {"args": ["touch", str(tmp_path / "called")]}}).plan(600)
    assert not (tmp_path / "called").exists()
