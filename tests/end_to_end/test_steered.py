"""A run from a public model file that stops early and is tracked, with real processes: what parties get back for it."""

import json
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from parley.coordinator.operator_client import Coordinator
from parley.coordinator.result import write_model
from parley.coordinator.starts import keep_start
from parley.coordinator.store import State
from parley.demo.local import LocalFederation, NodeProcess, sealed
from parley.federation.manifest import Manifest
from parley.federation.meaning import verify
from parley.federation.start_and_stop import StopEarly
from parley.models.registry import model_of
from parley.models.warm import read_start
from parley.node.trail import verify as verify_trail
from parley.privacy.filters import Policy
from parley.privacy.ledger import Ledger
from parley.study.model_file import load
from tests.support.until import until

RDP = "party-2"
"""Whose ledger is of the rule rdp; all others are as nodes make them."""


def ledger_of(node: NodeProcess) -> Ledger:
    return Ledger.open(node.folder / "state" / "ledger.sqlite")


def ended(node: NodeProcess, run: str) -> bool:
    with closing(ledger_of(node)) as ledger:
        return ledger.runs[run].ended


@pytest.mark.slow
def test_rounds_that_were_not_made_come_back_under_rdp_alone(
    tmp_path: Path, manifest: Manifest, data: dict[str, list[Path]]
) -> None:
    theta = np.linspace(-0.1, 0.1, manifest.model.dimension)
    earlier = replace(manifest, run="earlier")
    write_model(tmp_path / "start.npz", theta, earlier, verify(earlier))
    start = read_start(tmp_path / "start.npz", {"kind": "logistic"}, model_of(manifest)[0]).start
    # No fall of the loss is as large as this, so that the second evaluation ends the run.
    wanted = replace(manifest, run="steered", start=start, stop_early=StopEarly(1, 1e5))
    with LocalFederation(tmp_path / "nodes", wanted, data, evaluation=data["party-1"]) as federation:
        (lead,) = [node for node in federation.nodes.values() if node is federation.coordinator]
        with (lead.folder / "node.toml").open("a") as file:  # a server that is not there, and a folder
            file.write('\n[track]\nmlflow = "http://127.0.0.1:9"\ntensorboard = "events"\n')
        (home,) = [node.folder for node in federation.parties if node.name == RDP]
        for path in (home / "state").iterdir():
            path.unlink()
        Ledger.create(home / "state" / "ledger.sqlite", Policy("rdp", 6.0)).close()
        sealed(home)
        federation.start()
        coordinator = Coordinator(lead.folder)
        keep_start(wanted, tmp_path / "start.npz", lead.folder / "state")
        digest = coordinator.submit(wanted)
        *_, (row, _) = coordinator.follow(digest)
        assert (row.state, row.round) == (State.finished, 2), (row.outcome, lead.tail())
        assert "under rdp 10 rounds come back" in row.outcome
        for node in federation.parties:
            until(partial(ended, node, wanted.run))
        card = load(lead.folder / "models" / "steered.npz").card
        assert (card["rounds"], card["rounds_planned"], card["chosen_round"]) == (2, manifest.releases, 1)
        assert card["start"]["digest"] == start.digest
        for node in federation.parties:
            with closing(ledger_of(node)) as ledger:
                run = ledger.runs[wanted.run]
                if node.name == RDP:
                    assert 0 < run.cost.rdp < run.charge.cost.rdp
                else:
                    assert run.cost == run.charge.cost
                assert sorted(run.recorded) == [0, 1]
        # The trackers were neither waited for nor able to end anything; the one that can do its work has done it.
        events = lead.folder / "events" / "steered"
        until(lambda: (events / "steered.card.json").exists(), lead.tail())
        assert json.loads((events / "steered.card.json").read_text()) == card
        until(lambda: '"tracker.ended"' in lead.log.read_text(), lead.tail())
        assert '"the tracker failed"' in lead.log.read_text()
    verify_trail(lead.folder / "state" / "trail.jsonl")
