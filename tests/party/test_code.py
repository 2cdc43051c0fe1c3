"""A user's module at a party: what a coordinator may change in a manifest, and what others hear of it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parley.federation.manifest import Manifest
from parley.federation.policy import PartyPolicy
from parley.federation.policy_file import read_policy
from parley.models.apart import Apart
from parley.models.registry import open_module
from parley.party.admission import Gate, Waiting
from parley.party.code import opened
from parley.party.data import Shelf, understand
from parley.party.errors import RefusedRunError
from parley.party.process import party_node, settings_of
from tests.support.documents import PARTY_POLICY, manifest
from tests.support.own_modules import OwnPackage, own_package
from tests.support.party_process import EVERYONE
from tests.support.stage import PARTY, Stage

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("verified_in_process")]
KIND = "torch:users_models.nets:build"
OPTIONS: dict[str, Any] = {"columns": 3, "outputs": 1, "width": 2}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnPackage:
    pytest.importorskip("torch")
    return own_package(tmp_path, monkeypatch)


@pytest.fixture
def made(package: OwnPackage) -> Manifest:
    """As `parley manifest draft` writes it: with the digest and the probe that were found."""
    return of(manifest(**EVERYONE))


def of(before: Manifest, **options: Any) -> Manifest:
    from parley.learning.schema import schema_from_json
    from parley.models.module_spec import ModuleSpec

    schema = schema_from_json(before.schema.body)
    told = {"kind": KIND, "options": {**OPTIONS, **options}}
    model = open_module(ModuleSpec.of(told, schema), schema.outputs)
    return manifest(**EVERYONE, model={**model.spec.body(), "dimension": model.dimension})


def policy_of(folder: Path, *manifests: Manifest) -> PartyPolicy:
    path = folder / "policy.toml"
    lines = {f'"{KIND}" = "{each.model.options.body["digest"]}"' for each in manifests}
    path.write_text(PARTY_POLICY + "[code]\n" + "\n".join(lines) + "\n")
    found = read_policy(path)
    assert isinstance(found, PartyPolicy)
    return found


def altered(made: Manifest, **changes: Any) -> Manifest:
    return manifest(**EVERYONE, model={**made.as_json()["model"], **changes})


@pytest.fixture
def ended() -> Iterator[list[Apart]]:
    held: list[Apart] = []
    yield held
    for each in held:
        each.close()


def test_what_was_drafted_is_opened_and_whatever_is_changed_in_it_is_not(
    made: Manifest, package: OwnPackage, ended: list[Apart], tmp_path: Path
) -> None:
    module = opened(made, understand(made), policy_of(tmp_path, made), PARTY.name)
    assert module is not None
    ended.append(module)
    body = made.model.options.body
    probe = [body["probe"][0] + 0.5, *body["probe"][1:]]
    for changes, field in (
        ({"digest": "sha256:" + "0" * 64}, "model.digest"),
        ({"options": {**OPTIONS, "width": 3}}, "model.digest"),
        ({"input": [3, 1]}, "model.digest"),
        ({"probe": probe}, "model.kind"),
        ({"dimension": made.model.dimension + 1}, "model.dimension"),
    ):
        wrong = altered(made, **changes)
        with pytest.raises(RefusedRunError) as caught:
            opened(wrong, understand(wrong), policy_of(tmp_path, wrong), PARTY.name)
        assert str(caught.value).startswith(field), changes
        assert "\n" not in str(caught.value)
    slow = replace(made, deadline_seconds=0.01)
    with pytest.raises(RefusedRunError, match=r"rounds.deadline_seconds: is 0.01 and this party needs longer"):
        opened(slow, understand(slow), policy_of(tmp_path, made), PARTY.name)
    charged = opened(slow, understand(slow), policy_of(tmp_path, made), None)
    assert charged is not None, "a run that was charged is not left because this machine is slow today"
    charged.close()
    with (package.folder / "nets.py").open("a") as file:
        file.write("\n# another comment\n")
    with pytest.raises(RefusedRunError, match=r"^model.digest"):
        opened(made, understand(made), policy_of(tmp_path, made), PARTY.name)


def test_a_run_waits_for_the_policy_and_imports_nothing_before(
    made: Manifest, package: OwnPackage, tmp_path: Path
) -> None:
    note = tmp_path / "imported"
    with (package.folder / "nets.py").open("a") as file:
        file.write(f"\nopen({str(note)!r}, 'w').close()\n")
    made = of(manifest(**EVERYONE))
    note.unlink()
    (tmp_path / "stage").mkdir()
    stage = Stage(tmp_path / "stage")
    try:
        settings = settings_of(party_node(stage.node))
        settings.state.mkdir(mode=0o700, exist_ok=True)
        gate = Gate(settings, PARTY, Shelf(settings))
        found = gate.decide(made)
        assert isinstance(found, Waiting)
        assert f'adds "{KIND}" = "{made.model.options.body["digest"]}" to [code]' in found.reasons
        assert not note.exists()
        policy_of(stage.node, made)
        ready = gate.decide(made)
        assert not isinstance(ready, Waiting)
        assert not note.exists()
        gate.open_module(made, ready)
        assert note.exists()
        assert ready.module is not None
        assert gate.contributor(made, ready).engine is ready.module
        ready.module.close()
        # Taken from the policy again: whoever admitted the run before, it is not opened once more.
        (stage.node / "policy.toml").write_text(PARTY_POLICY)
        with pytest.raises(RefusedRunError, match=r"^model.kind"):
            gate.open_module(made, ready)
        gate.close()
    finally:
        stage.close()
