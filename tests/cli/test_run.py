"""`parley run --start`: the file that the manifest names, checked before the run's name is used up."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import parley.coordinator.process
from parley.cli.main import app
from parley.coordinator.starts import start_path
from parley.coordinator.store import State
from parley.federation.manifest import Manifest
from parley.federation.toml_text import toml_text
from tests.support.documents import manifest
from tests.support.lead import Lead, verified
from tests.support.warm import lead_with_public_set, model_file, starting


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parley.coordinator.process, "verify_apart_with_charge", verified)


def run(lead: Lead, made: Manifest, *more: str) -> str:
    path = lead.folder.parent / "run.toml"
    path.write_text(toml_text(made.as_json()) + "\n")
    result = CliRunner().invoke(app, ["run", str(path), "--node", str(lead.folder), "--detach", *more])
    return str(result.exception) if result.exit_code else "done"


def test_a_start_is_kept_and_the_run_begins(tmp_path: Path) -> None:
    with lead_with_public_set(tmp_path) as lead:
        path = model_file(tmp_path / "start.npz")
        made = manifest(run="warm", **starting(path))
        assert run(lead, made, "--start", str(path)) == "done"
        assert made.start is not None
        assert start_path(lead.folder / "state", made.start.digest).is_file()
        lead.until(made, State.gathering)
        # Given once, it is there for the next run from the same model.
        again = manifest(run="again", **starting(path))
        assert run(lead, again) == "done"
        lead.until(again, State.gathering)


def test_what_cannot_begin_has_not_used_up_its_name(tmp_path: Path) -> None:
    with lead_with_public_set(tmp_path) as lead:
        path, other = model_file(tmp_path / "start.npz"), model_file(tmp_path / "other.npz", **{"privacy.epsilon": 1.9})
        made = manifest(run="warm", **starting(path))
        assert "submit it with `parley run RUN.toml --start MODEL.npz`" in run(lead, made)
        assert "starts from another one" in run(lead, made, "--start", str(other))
        assert "names no start" in run(lead, manifest(run="warm"), "--start", str(path))
        assert lead.process.store.runs() == []
        assert run(lead, made, "--start", str(path)) == "done"


def test_an_early_stop_needs_a_public_set(lead: Lead) -> None:
    made = manifest(run="blind", **{"rounds.stop_early": {"patience": 3}})
    assert "name one under [evaluation] in node.toml" in run(lead, made)
    assert lead.process.store.runs() == []
