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
from parley.node import bell
from parley.node.notify_settings import NotifySettings
from tests.support.documents import manifest
from tests.support.lead import LEAD, SECONDS, Lead, joining, verified
from tests.support.until import until
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


def test_a_run_that_the_policy_refused_is_tried_again_once_the_policy_is_mended(lead: Lead) -> None:
    policy = lead.folder / "policy.toml"
    good = policy.read_text()
    policy.write_text(good.replace("minimum_parties = 2", "minimum_parties = 5"))
    assert policy.read_text() != good
    made = manifest(run="auto-1")
    assert run(lead, made) == "done"
    until(lambda: lead.process.runs.all[made.digest].state is State.refused)
    assert "minimum_parties" in lead.process.runs.all[made.digest].outcome
    policy.write_text(good)
    assert run(lead, made) == "done"
    lead.until(made, State.gathering)
    assert lead.notes.count("run.submitted") == 2


def test_a_name_that_is_used_up_is_an_error_that_says_which_why_and_what_to_do(lead: Lead) -> None:
    made = lead.submit("auto-1")
    for party in made.parties:
        lead.stub(party).Join(joining(made, False, "no room"), timeout=SECONDS)
    lead.until(made, State.failed)
    for again, how in (
        (made, "before"),
        (manifest(run="auto-1", **{"rounds.deadline_seconds": 31.0}), "with another manifest"),
    ):
        said = run(lead, again)
        assert said.startswith(f"run auto-1 was submitted {how}: that one is failed since 20"), said
        assert "hospital-a refused (no room)" in said
        assert said.endswith(
            """a run's name can be used only once: choose another in the manifest, such as run = "auto-2\""""
        )
    assert lead.notes.count("run.submitted") == 1
    lead.process.store.submit(b"x" * 32, "auto-2", made.canonical)
    assert run(lead, made).endswith('such as run = "auto-3"')


def test_a_run_that_was_refused_or_has_stalled_rings_for_the_operator(
    lead: Lead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bell.Bell(NotifySettings(command=("/bin/cat",)), LEAD, tmp_path)
    monkeypatch.setattr(bell, "_bell", made)
    policy = lead.folder / "policy.toml"
    good = policy.read_text()
    policy.write_text(good.replace("minimum_parties = 2", "minimum_parties = 5"))
    refused = manifest(run="refused")
    assert run(lead, refused) == "done"
    until(lambda: (bell.REFUSED, "refused", refused.digest.hex()) in made._told)
    policy.write_text(good)
    again = manifest(run="refused")
    assert run(lead, again) == "done"
    lead.until(again, State.gathering)
    assert not made._told, "it waits for nobody any more"
    lead.process.runs._gather_seconds = 0.5
    slow = lead.submit("slow")
    until(lambda: (bell.STALLED, "slow", slow.digest.hex()) in made._told)
    lead._await(lead.process.runs.resume("slow"))
    made.close()


def test_a_run_that_is_stopped_for_good_has_ended_and_is_not_called_failed(lead: Lead) -> None:
    lead.running("over")
    result = CliRunner().invoke(app, ["stop", "over", "--node", str(lead.folder), "--final"])
    assert result.stdout == "run over has ended for good\n"
