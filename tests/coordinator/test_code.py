"""A user's module at a coordinator: under its own policy, in a process of its own, which ends with the run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.coordinator.code import require_code
from parley.coordinator.errors import RunFailedError
from parley.coordinator.preparation import prepare
from parley.federation.manifest import Manifest
from parley.learning.rows import DenseRows
from parley.learning.schema import schema_from_json
from parley.models.child import ModuleLostError
from parley.models.module_spec import ModuleSpec
from parley.models.registry import model_of, open_module
from tests.coordinator.test_preparation import public
from tests.support.documents import COORDINATOR_POLICY, manifest
from tests.support.own_modules import OwnPackage, own_package

KIND = "torch:users_models.nets:build"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnPackage:
    return own_package(tmp_path, monkeypatch)


def policy(folder: Path, digest: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(f'{COORDINATOR_POLICY}[code]\n"{KIND}" = "{digest}"\n')
    return path


def drafted(package: OwnPackage) -> tuple[Manifest, Any]:
    schema = schema_from_json(manifest().schema.body)
    options = {"columns": 3, "outputs": 1, "width": 2, "flag": str(package.flag), "does": "crash"}
    model = open_module(ModuleSpec.of({"kind": KIND, "options": options}, schema), schema.outputs)
    return manifest(model={**model.spec.body(), "dimension": model.dimension}), model


def test_without_its_word_nothing_is_even_looked_at(tmp_path: Path) -> None:
    made = manifest(model={"kind": KIND, "dimension": 9, "digest": "sha256:" + "5" * 64, "probe": [0.5]})
    for found in (tmp_path / "none", policy(tmp_path, "sha256:" + "6" * 64)):
        with pytest.raises(RunFailedError, match=r"^model\.(kind|digest)"):
            require_code(made, found)
    with pytest.raises(RunFailedError, match="there is no module users_models here"):
        require_code(made, policy(tmp_path, "sha256:" + "5" * 64))
    require_code(manifest(), tmp_path / "none")


@pytest.mark.slow
def test_it_makes_and_evaluates_models_as_they_would_be_here(package: OwnPackage, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    made, model = drafted(package)
    allowed = policy(tmp_path, made.model.options.body["digest"])
    prepared = prepare(made, [public(tmp_path)], policy=allowed)
    try:
        assert prepared.theta.shape == (made.model.dimension,)
        assert np.abs(prepared.theta).max() > 0
        row = DenseRows.of(np.ones((1, 3), np.int64), 0).take(np.arange(1))
        assert np.isfinite(model.scores(row, prepared.theta)).all()
        figures = prepared.evaluate(prepared.theta)
        assert {"loss", "error", "auc"} <= set(figures)
        assert prepared.measure(prepared.theta)["public_records"] > 0
        huge = prepared.evaluate(np.full(made.model.dimension, 1e300))
        assert "error" in huge
        package.flag.touch()
        with pytest.raises(ModuleLostError):
            prepared.evaluate(prepared.theta)
    finally:
        prepared.close()
    assert model_of(made)[1].dimension == made.model.dimension
