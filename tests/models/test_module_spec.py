"""How a module is named: every field with its rule, and a digest over what it is told and over exact bytes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parley.federation.errors import ManifestError
from parley.learning.errors import ModelError
from parley.learning.schema import schema_from_json
from parley.models.module_spec import ModuleSpec, digest_of, is_module
from parley.models.named import NamedModule
from parley.models.registry import build_model, model_of
from tests.support.documents import manifest
from tests.support.own_package import NAME, installed, schema_of

KIND = f"torch:{NAME}.nets:dense"
DIGEST = "sha256:" + "0" * 64


def spec(**more: Any) -> ModuleSpec:
    return ModuleSpec.of({"kind": KIND, **more}, schema_of())


def test_what_is_left_out_follows_from_the_schema() -> None:
    found = spec()
    assert (found.input, found.loss, dict(found.options)) == ((12,), "cross-entropy", {})
    assert ModuleSpec.of({"kind": KIND}, schema_of(1)).loss == "squared"
    assert (found.module, found.function) == (f"{NAME}.nets", "dense")
    assert ModuleSpec.of(found.body(), schema_of()) == found
    full = spec(options={"width": 4}, input=[3, 4], digest=DIGEST, probe=[1, 2.5])
    assert ModuleSpec.of(full.body(), schema_of()) == full
    assert full.probe == (1.0, 2.5)


def test_rows_lie_between_the_schemas_public_bounds() -> None:
    assert spec().reach == ((-1.0, 1.0),)
    words = ModuleSpec.of({"kind": KIND}, schema_of(whole=20))
    assert (words.reach, words.whole) == (((0.0, 19.0),), True)
    table = {
        "features": [
            {"name": "age", "low": 20.0, "high": 90.0, "centre": 20.0, "spread": 70.0},
            {"name": "dose", "low": 0.0, "high": 4.0, "centre": 0.0, "spread": 1.0},
        ],
        "target": {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]},
        "intercept": True,
    }
    assert ModuleSpec.of({"kind": KIND}, schema_from_json(table)).reach == ((0.0, 1.0), (0.0, 4.0), (1.0, 1.0))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "torch:nets"}, "write torch:package.module:function"),
        ({"kind": "torch:a.b:c d"}, "write torch:package.module:function"),
        ({"kind": "torch:../a:b"}, "write torch:package.module:function"),
        ({"kind": "torch:" + "a" * 300 + ":b"}, "write torch:package.module:function"),
        ({"kind": "torch:subprocess:call"}, "is Python's own or PyTorch's"),
        ({"kind": "torch:torch.nn:Linear"}, "is Python's own or PyTorch's"),
        ({"kind": "torch:parley.party.run:main"}, "no module of parley's own is a model but parley.networks"),
        ({"kind": "torch:parley:main"}, "no module of parley's own"),
        ({"depth": 3}, "has no field 'depth': use kind, options"),
        ({"options": [1]}, "give a table of build's keyword arguments"),
        ({"options": {"a b": 1}}, "give a table of build's keyword arguments"),
        ({"options": {"a": float("nan")}}, "use text, finite numbers"),
        ({"options": {"a": b"bytes"}}, "use text, finite numbers"),
        ({"input": [3, 5]}, r"input = \[3, 5\] is 15 numbers and a row of the schema has 12"),
        ({"input": []}, "give the shape of one record"),
        ({"input": [3, 4.0]}, "give the shape of one record"),
        ({"input": [True, 12]}, "give the shape of one record"),
        ({"input": "3,4"}, "give the shape of one record"),
        ({"loss": "squared"}, "for a classes target use cross-entropy, or torch:"),
        ({"loss": "torch:other.losses:mine"}, "keep both in one package"),
        ({"digest": "sha256:short"}, "write what `parley model show` prints"),
        ({"digest": 5}, "write what `parley model show` prints"),
        ({"probe": [1.0, "2"]}, "write what `parley model show` prints"),
        ({"probe": [float("inf")]}, "write what `parley model show` prints"),
        ({"probe": [True]}, "write what `parley model show` prints"),
        ({"probe": [0.0] * 1000}, "write what `parley model show` prints"),
    ],
)
def test_every_field_has_its_rule(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        spec(**wrong)


def test_an_intercept_is_named_where_it_is_what_does_not_fit() -> None:
    table = {**schema_of().as_json(), "intercept": True}
    with pytest.raises(ModelError, match="set intercept = false"):
        ModuleSpec.of({"kind": KIND, "input": [3, 4]}, schema_from_json(table))


def test_the_digest_is_of_all_that_the_module_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch)
    told = [
        digest_of(spec(), 3),
        digest_of(spec(), 4),
        digest_of(spec(options={"width": 4}), 3),
        digest_of(spec(options={"width": 4.0}), 3),
        digest_of(spec(input=[3, 4]), 3),
        digest_of(spec(input=[4, 3]), 3),
        digest_of(spec(loss=f"torch:{NAME}.nets:smooth"), 3),
        digest_of(ModuleSpec.of({"kind": f"torch:{NAME}.nets:lora"}, schema_of()), 3),
    ]
    assert len(set(told)) == len(told)
    assert digest_of(spec(), 3) == told[0]
    assert digest_of(spec(digest=DIGEST, probe=[1.0]), 3) == told[0], "it is not of itself, nor of what follows from it"


def test_of_a_manifest_a_module_is_a_name_and_a_size() -> None:
    schema = schema_of().as_json()
    body = {"dimension": 131, **spec(digest=DIGEST, probe=[1.0]).body()}
    named = {"schema": {name: value for name, value in schema.items() if value is not None}}
    found, model = model_of(manifest(model=body, **named))
    assert isinstance(model, NamedModule)
    assert model.dimension == 131
    assert found.outputs == 3
    with pytest.raises(ModelError, match="is named here and not opened"):
        model.scores(None, None)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="has 5 parameters and the manifest says 131"):
        model.bound(NamedModule(model.spec, 5))
    assert model.bound(NamedModule(model.spec, 131)).runs is not None
    for name in ("digest", "probe"):
        without = {key: value for key, value in body.items() if key != name}
        with pytest.raises(ManifestError, match=f"model.{name}: is missing: write what `parley model show` prints"):
            model_of(manifest(model=without, **named))
    with pytest.raises(ModelError, match="is known once it is opened"):
        assert build_model({"kind": KIND}, schema_of()).dimension
    assert is_module(KIND)
    assert not is_module("logistic")
    assert not is_module(None)


def test_naming_and_hashing_a_module_imports_neither_it_nor_torch(tmp_path: Path) -> None:
    """Nor does anything that a party's process holds."""
    program = (
        "import importlib, sys\n"
        f"sys.path[:0] = [{str(tmp_path)!r}, {str(Path.cwd())!r}]\n"
        "from pathlib import Path\n"
        "from tests.support.own_package import write, schema_of\n"
        f"write(Path({str(tmp_path)!r}), 'raise SystemExit(7)')\n"
        "from parley.models.module_spec import ModuleSpec, digest_of\n"
        f"print(digest_of(ModuleSpec.of({{'kind': {KIND!r}}}, schema_of()), 3))\n"
        "for name in ('parley.party.process', 'parley.models.registry', 'parley.coordinator.driver',\n"
        "             'parley.study.study'):\n"
        "    importlib.import_module(name)\n"
        "from parley.cli.main import app\n"
        "print(sorted({'torch', 'ray', 'hospital_models', 'parley.networks'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    digest, loaded = done.stdout.splitlines()
    assert digest.startswith("sha256:")
    assert loaded == "[]"
