"""`parley party`."""

import pytest
from typer.testing import CliRunner

from parley.cli.commands.doctor import examine
from parley.cli.commands.ledger import app as ledger_app
from parley.cli.commands.party import app
from parley.federation.admission import AdmissionRecord
from parley.learning.feature_cache import ENDING
from parley.node.doctor import OK, WARNING
from parley.party.process import party_node, settings_of
from tests.support.documents import manifest
from tests.support.memories import state
from tests.support.party_process import EVERYONE, Running, charged, ledger
from tests.support.stage import SOUTH, Stage, State
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")


@pytest.mark.slow
def test_a_run_whose_end_is_not_proved_is_named_and_settled_later(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        stage.coordinator.say(State(state=State.STATE_ENDED, ends=stage.ends(made, 0, (SOUTH,)), outcome="failed"))
        until(lambda: state(stage) == "ended")
    done = CliRunner().invoke(app, ["settle", str(stage.node), "heart-1"])
    assert done.exit_code == 1
    assert "stays charged: the end of run heart-1 needs the word of both" in done.output
    found = {each.check: each for each in examine(stage.node)}["memory"]
    assert (found.state, "party settle" in found.fix) == (WARNING, True)
    stage.finish(stage.ends(made, 0))
    with Running(stage):
        until(lambda: ledger(stage).runs["heart-1"].ended)
    assert CliRunner().invoke(app, ["settle", str(stage.node)]).output.startswith("no run is open")


def test_budgets_show_delta_and_what_is_released(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    path = stage.node / "state" / "ledger.sqlite"
    shown = CliRunner().invoke(ledger_app, ["show", str(path)]).output
    assert f"1 of {made.releases} released, open, epsilon" in shown
    assert "delta 1e-05 of 0.0001 spent" in shown
    assert "delta 1e-05 of 0.0001 spent" in CliRunner().invoke(app, ["status", str(stage.node)]).output
    budget = {each.check: each for each in examine(stage.node)}["budget"]
    assert (budget.state, "delta" in budget.problem) == (OK, True)


def test_who_withdraws_a_run_erases_its_features_though_the_node_is_stopped(stage: Stage) -> None:
    made, other = manifest(**EVERYONE), manifest(run="heart-2", **EVERYONE)
    settings = settings_of(party_node(stage.node))
    settings.state.mkdir(mode=0o700, exist_ok=True)
    record = AdmissionRecord(settings.admissions)
    record.put(made, "hand", "Dr. Osei")
    record.close()
    for each in (made, other):
        folder = settings.features_of(each.digest)
        folder.mkdir(parents=True)
        (folder / f"0123{ENDING}").write_bytes(b"as secret as records")
    done = CliRunner().invoke(app, ["withdraw", str(stage.node), "heart-1", "--by", "Dr. Osei"])
    assert done.exit_code == 0, done.output
    assert [each.name for each in settings.features.iterdir()] == [other.digest.hex()]
