"""From a submitted manifest to a model, with real processes, TLS and joint noise."""

import json
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from typer.testing import CliRunner

from parley.cli.commands.audit import app
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation, NodeProcess
from parley.federation.manifest import Manifest
from parley.node import facts
from parley.node.logs import REDACTED
from parley.node.trail import cross_check
from parley.node.trail import verify as verify_trail
from parley.privacy.ledger import Ledger
from parley.study.model_file import load
from tests.support.until import until


def _ended(node: NodeProcess, run: str) -> bool:
    """By this party's own ledger."""
    with closing(Ledger.open(node.folder / "state" / "ledger.sqlite")) as ledger:
        return ledger.runs[run].ended


def test_a_run_ends_with_a_model_and_every_ledger_charged(
    tmp_path: Path, manifest: Manifest, data: dict[str, list[Path]]
) -> None:
    with LocalFederation(tmp_path / "nodes", manifest, data, evaluation=data["party-1"]) as federation:
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)
        *_, (row, _) = coordinator.follow(digest)
        assert row.state is State.finished, (row.outcome, federation.coordinator.tail())
        theta = coordinator.store.theta(digest)
        records = coordinator.store.history(digest)
        for node in federation.parties:  # the coordinator is finished when it has both words; parties ask for them
            until(partial(_ended, node, manifest.run))
    assert theta is not None
    assert theta.shape == (manifest.model.dimension,)
    assert np.isfinite(theta).all()
    assert [record.round for record in records] == list(range(manifest.releases))
    assert all(record.contributors == sorted(manifest.parties) for record in records)
    # Noise dominates here, so that the norm of an estimate is that of the noise, give or take.
    assert 0.3 < np.median([record.estimator_norm / record.noise_norm for record in records]) < 3
    for node in [federation.coordinator, *federation.parties]:
        ledger = Ledger.open(node.folder / "state" / "ledger.sqlite")
        assert sorted(ledger.runs[manifest.run].recorded) == list(range(manifest.releases)), node.name
        assert ledger.runs[manifest.run].ended, node.name
        ledger.close()
    model = load(federation.coordinator.folder / "models" / f"{manifest.run}.npz")
    assert np.array_equal(model.theta, theta)
    assert model.card["manifest_digest"] == manifest.digest.hex()
    verify_trail(federation.coordinator.folder / "state" / "trail.jsonl")
    trails_agree(federation)
    for node in federation.nodes.values():
        nothing_private(node.log.read_text(), theta, [record.estimator_norm for record in records])


def trails_agree(federation: LocalFederation) -> None:
    """What each node says of the others' events is so, every round; and one that is rewritten is found."""
    done = CliRunner().invoke(app, ["verify", *(str(node.folder) for node in federation.nodes.values()), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output.splitlines()[-1])
    assert found["intact"]
    rounds, parties = federation.manifest.releases, len(federation.parties)
    # Server A hears every party and each of them A (B only with a key), the coordinator hears both aggregators.
    least = (rounds - 1) * (2 * parties + 2)
    assert found["references"]["checked"] >= least, found["references"]
    assert (found["references"]["unchecked"], found["references"]["absent"]) == (0, [])
    kept = [verify_trail(node.folder / "state" / "trail.jsonl") for node in federation.nodes.values()]
    (_, told), *_ = kept[0].references
    rewritten = [replace(each, ids=each.ids - {told}) for each in kept]
    absent = cross_check(rewritten).absent
    assert absent
    assert all(told in line for line in absent)


def nothing_private(log: str, theta: NDArray[np.float64], norms: list[float]) -> None:
    """JSON lines of listed facts, and no figure of the model or of an estimator in any of them."""
    told = []
    for line in log.splitlines():
        found = json.loads(line)
        assert set(found) <= {*facts.FACTS, "time", "level", "role", "name", "event", "message", "at", "redacted"}, line
        assert "redacted" not in found, line
        assert REDACTED not in line
        # Durations are left out: one of 0.029891 s agrees with a norm of 0.02989 by chance.
        told += [_written(key, value) for key, value in found.items() if key not in ("time", "at")]
    for figure in [*theta, *norms]:
        assert not any(f"{abs(figure):.5f}" in each for each in told), figure


def _written(key: str, value: object) -> str:
    return "" if key == "seconds" or key.endswith("_seconds") else json.dumps(value)
