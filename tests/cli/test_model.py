"""`parley model`, and `parley export --torch`."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.federation.toml_text import toml_text
from parley.learning.schema import schema_from_json
from parley.models.module_spec import ModuleSpec, digest_of
from tests.support.command import answer, parley
from tests.support.documents import manifest
from tests.support.own_package import NAME, write

KIND = f"torch:{NAME}.nets:dense"
STUDY = f"""
data.parties = {{ a = ["rows.npz"] }}
data.test = ["test.npz"]
schema.bits = 8
schema.features = {{ count = 12, low = -1, high = 1, spread = 1 }}
schema.target = {{ name = "label", kind = "classes", classes = ["0", "1", "2"] }}
model.kind = "{KIND}"
model.input = [3, 4]
model.options = {{ width = 4 }}
algorithm = {{ name = "dp-sgd", batch = 32, passes = 0.4, step = 1.0, clip_norm = 1.0 }}
privacy = {{ epsilon = 3.0, delta = 1e-3 }}
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Python finds it: as if it were installed."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "study.toml").write_text(STUDY)
    rng = np.random.default_rng(3)
    for name, count in (("rows", 160), ("test", 40)):
        rows = rng.uniform(-1, 1, (count, 12))
        np.savez(tmp_path / f"{name}.npz", X=rows, label=(np.abs(rows[:, :3]).argmax(axis=1)))
    return write(tmp_path / "site")


def test_its_files_are_shown_and_none_of_it_is_run(package: Path, tmp_path: Path) -> None:
    (package / "nets.py").write_text("raise SystemExit('it was run')\n")
    done = parley("model", "show", str(tmp_path / "study.toml"), "--files", "--json")
    assert done.returncode == 0, done.stderr
    said = answer(done)
    assert [each["name"] for each in said["files"]] == ["__init__.py", "nets.py"]
    people = parley("model", "show", str(tmp_path / "study.toml"), "--files")
    assert said["digest"] in people.stdout
    assert said["files"][1]["sha256"] in people.stdout
    other = (
        (tmp_path / "study.toml").read_text().replace(f'"{KIND}"', '"softmax"').replace("model.input = [3, 4]\n", "")
    )
    (tmp_path / "study.toml").write_text(other.replace("model.options = { width = 4 }\n", ""))
    refused = parley("model", "show", str(tmp_path / "study.toml"))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "names the built-in model softmax: there is no code to show" in refused.stderr


def test_of_a_manifest_nothing_is_run_that_nobody_allowed(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever proposes a run chooses the function and what it is told: any of any package that is installed."""
    note = tmp_path / "it-was-run"
    (package / "nets.py").write_text("import pathlib\n\ndef touch(path):\n    pathlib.Path(path).touch()\n")
    monkeypatch.syspath_prepend(package.parent)
    schema, name = schema_from_json(manifest().schema.body), f"torch:{NAME}.nets:touch"
    spec = ModuleSpec.of({"kind": name, "input": [3], "options": {"path": str(note)}}, schema)
    body = {**spec.body(), "digest": digest_of(spec, schema.outputs), "probe": [0.5], "dimension": 3}
    path = tmp_path / "manifest.toml"
    path.write_text(toml_text(manifest(model=body).as_json()))
    done = parley("model", "show", str(path), "--json")
    assert done.returncode == 0, done.stderr
    said = answer(done)
    assert said["digest"] == said["expected"] == body["digest"]
    assert said["options"] == {"path": str(note)}
    people = parley("model", "show", str(path)).stdout
    assert f'[code]\n"{name}" = "{body["digest"]}"' in people
    assert "as the manifest says" in people
    refused = parley("model", "check", str(path))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"where you trust it give --allow {name}" in refused.stderr
    (package / "more.txt").write_text("another file")
    assert "NOT the manifest's" in parley("model", "show", str(path)).stdout
    assert not note.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((f"{NAME}.nets:dense",), "needs --input and --outputs"),
        ((f"{NAME}.nets:dense", "--input", "3x4", "--outputs", "3"), "give whole numbers with commas"),
        ((f"{NAME}.nets:dense", "--input", "12", "--outputs", "3", "--options", "{"), "give a JSON object"),
        (("nowhere.nets:dense", "--input", "12", "--outputs", "3"), "there is no module nowhere here"),
    ],
)
def test_what_is_missing_is_said_in_a_line(words: tuple[str, ...], said: str) -> None:
    done = parley("model", "check", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    # Without torch that is said first, of what would have to be imported.
    assert said in done.stderr or ("nowhere" in words[0] and "torch is not installed here" in done.stderr)


@pytest.mark.slow
def test_a_module_is_checked_trained_and_exported(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    call = ("model", "check", f"{NAME}.nets:dense", "--input", "3,4", "--outputs", "3", "--options", '{"width": 4}')
    done = parley(*call, "--low", "-1", "--json")
    assert done.returncode == 0, done.stderr
    checked = answer(done)
    assert (checked["route"], checked["dimension"]) == ("book", 67)
    done = parley("model", "show", str(tmp_path / "study.toml"))
    assert done.returncode == 0, done.stderr
    assert f'[code]\n"{KIND}" = "{checked["digest"]}"' in done.stdout, "a check and a study say the same"
    assert "probe = [" in done.stdout
    refused = parley("model", "check", f"{NAME}.nets:normalised", "--input", "3,4", "--outputs", "3")
    assert refused.returncode == 2
    assert "BatchNorm1d, mixes records: use nn.GroupNorm" in refused.stderr
    model, state = tmp_path / "model.npz", tmp_path / "model.pt"
    done = parley("simulate", str(tmp_path / "study.toml"), "--seeds", "1", "-o", str(model))
    assert done.returncode == 0, done.stderr
    refused = parley("export", str(model), "--torch", str(state))
    assert (refused.returncode, state.exists()) == (2, False)
    assert f"the module {KIND}, whose code would run here" in refused.stderr
    done = parley("export", str(model), "--torch", str(state), "--allow", KIND)
    assert done.returncode == 0, done.stderr
    values: dict[str, Any] = torch.load(state, weights_only=True)
    assert [tuple(each.shape) for each in values.values()] == [(4, 12), (4,), (3, 4), (3,)]
    found = np.concatenate([each.numpy().ravel() for each in values.values()])
    assert np.array_equal(found, np.load(model)["theta"].astype(np.float32))
    assert (tmp_path / "model.card.json").is_file()
