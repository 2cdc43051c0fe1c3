"""`parley status`: what a server that lies could cost stands beside epsilon."""

import json
from pathlib import Path

import pytest

from parley.cli.commands.status import show_status
from parley.coordinator.store import RunStore
from tests.dashboard.folders import CLAIM, coordinator_folder, write_run


@pytest.mark.parametrize(("lying", "said"), [(2.4, "2.4"), (10.5, "no guarantee"), (None, "no guarantee")])
def test_a_run_shows_what_holds_if_a_server_lies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lying: float | None, said: str
) -> None:
    state, document = coordinator_folder(tmp_path, None)
    (state.parent / "node.toml").write_text(
        'role = "coordinator"\nlisten = "127.0.0.1:0"\n[aggregators]\nnorth = "a:1"\nsouth = "b:1"\n'
    )
    store = RunStore(state / "runs.sqlite")
    write_run(store, document, 3, claim={**CLAIM, "epsilon_if_a_server_lies": lying})
    store.close()
    show_status(state.parent, json_output=False)
    shown = capsys.readouterr().out
    assert "if a server lies" in shown
    assert said in shown
    show_status(state.parent, json_output=True)
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["epsilon_if_a_server_lies"] == lying
