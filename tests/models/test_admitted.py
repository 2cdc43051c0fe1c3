"""What stands between a manifest and a user's code, before it is imported; and what `parley doctor` says of it."""

import sys
from pathlib import Path

import pytest

from parley.cli.commands.doctor import examine
from parley.federation.errors import ManifestError
from parley.federation.manifest import Manifest
from parley.learning.errors import ModelError
from parley.models import admitted as module
from parley.models.admitted import admitted, package_of, require_here
from parley.models.registry import model_of
from parley.node.doctor import FAILED, OK, WARNING
from tests.support.documents import manifest
from tests.support.examined import by_check
from tests.support.own_modules import own_package

EVIL = """
import pathlib
pathlib.Path(__file__).with_name("was-imported").touch()
"""


def of_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Manifest, dict[str, str], Path]:
    """A run of a module on the tests' columns, what allows it, and what is there once it was imported."""
    package = own_package(folder, monkeypatch)
    (package.folder / "nets.py").write_text(EVIL)
    from parley.learning.schema import schema_from_json
    from parley.models.module_spec import ModuleSpec, digest_of

    name, schema = "torch:users_models.nets:build", schema_from_json(manifest().schema.body)
    spec = ModuleSpec.of({"kind": name, "input": [3]}, schema)
    digest = digest_of(spec, schema.outputs)
    body = {**spec.body(), "digest": digest, "probe": [0.5], "dimension": 3}
    return manifest(model=body), {name: digest}, package.folder / "was-imported"


def test_nothing_is_imported_that_is_not_allowed_or_not_the_very_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, allowed, imported = of_package(tmp_path, monkeypatch)
    other = dict.fromkeys(allowed, "sha256:" + "0" * 64)
    for listed, field in (({}, "model.kind"), (other, "model.digest")):
        with pytest.raises(ManifestError) as caught:
            admitted(made, *model_of(made), listed)
        assert caught.value.field == field
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ManifestError, match=r"pip install 'parley-federation\[torch\]'"):
        require_here(made, *model_of(made), allowed)
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    assert require_here(made, *model_of(made), allowed).startswith("torch:users_models.nets:build is allowed")
    with (tmp_path / "installed" / "users_models" / "more.txt").open("w") as file:
        file.write("another file of the package")
    for check in (admitted, require_here):
        with pytest.raises(ManifestError, match="what is installed here has") as caught:
            check(made, *model_of(made), allowed)
        assert caught.value.field == "model.digest"
    assert not imported.exists()
    assert "users_models" not in sys.modules


def test_a_package_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, allowed, _ = of_package(tmp_path, monkeypatch)
    (tmp_path / "installed" / "users_models" / "__init__.py").unlink()
    (tmp_path / "installed" / "users_models" / "nets.py").unlink()
    with pytest.raises(ManifestError, match="there is no module users_models"):
        require_here(made, *model_of(made), allowed)
    with pytest.raises(ModelError, match="install"):
        package_of("torch:users_models.nets:build")
    assert require_here(manifest(), *model_of(manifest()), {}) == "no code but parley's own"


def test_doctor_says_which_code_is_allowed_and_whether_it_is_what_a_run_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, party: Path
) -> None:
    made, allowed, imported = of_package(tmp_path, monkeypatch)
    policy = party / "policy.toml"
    before = policy.read_text()
    assert by_check(examine(party, [made]))["run heart-1: code"].state == FAILED
    (name, digest), check = next(iter(allowed.items())), "run heart-1: code"
    policy.write_text(f'{before}[code]\n"{name}" = "{digest}"\n')
    found = by_check(examine(party, [made]))
    assert (found[check].state, found[f"code {name}"].state) == (OK, OK) or "PyTorch" in found[check].problem
    assert "2 files" in found[f"code {name}"].problem
    policy.write_text(f'{before}[code]\n"{name}" = "sha256:{"0" * 64}"\n"torch:no_such:build" = "{digest}"\n')
    found = by_check(examine(party, [made]))
    assert (found[check].state, found["code torch:no_such:build"].state) == (FAILED, WARNING)
    assert "model.digest" in found[check].problem
    assert not imported.exists()
