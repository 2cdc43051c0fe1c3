"""A whole run under `security = "malicious"`: each server's own samples, no pool, no session but the openings."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from parley.aggregator.admission import reasons_against_server
from parley.bench.train_data import study
from parley.coordinator.controls import Control
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation
from parley.federation.names import Role
from parley.mpc.parts import NoiseParts
from parley.node.credentials import NodeFolder
from parley.node.node_file import AggregatorNode, read_node
from parley.privacy.ledger import Ledger
from parley.study.model_file import load
from parley.v1 import aggregator_pb2
from tests.end_to_end.conftest import DIMENSION, PARTIES

ROUNDS = 6


def pools(federation: LocalFederation) -> list[aggregator_pb2.StatusResponse]:
    """What both servers say of theirs."""

    async def asked() -> list[aggregator_pb2.StatusResponse]:
        folder, found = NodeFolder(federation.coordinator.folder / "identity"), []
        for name in federation.manifest.identities(Role.aggregator):
            control = Control(folder, name, str(federation.ports[f"control {name.name}"]))
            found.append(await control.call("Status", aggregator_pb2.StatusRequest(), 10))
            await control.close()
        return found

    return asyncio.run(asked())


@pytest.mark.slow
def test_a_run_without_joint_noise_ends_with_a_model_and_no_pool_was_ever_filled(
    tmp_path: Path, data: dict[str, list[Path]]
) -> None:
    manifest = study("whole", PARTIES, DIMENSION, ROUNDS, NoiseParts("malicious", 1.0))
    with LocalFederation(tmp_path / "nodes", manifest, data) as federation:
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)
        *_, (row, _) = coordinator.follow(digest)
        assert row.state is State.finished, (row.outcome, federation.coordinator.tail())
        theta, records = coordinator.store.theta(digest), coordinator.store.history(digest)
        assert [(each.pool_capacity, each.pool_produced, each.pool_error) for each in pools(federation)] == [
            (0, 0, "")
        ] * 2
    assert theta is not None
    assert np.isfinite(theta).all()
    assert len(records) == ROUNDS
    # Noise dominates, and the norm that is expected of it is of both servers' samples.
    assert 0.3 < np.median([record.estimator_norm / record.noise_norm for record in records]) < 3
    for node in [federation.coordinator, *federation.parties]:
        ledger = Ledger.open(node.folder / "state" / "ledger.sqlite")
        cost = ledger.runs[manifest.run].cost
        assert cost.epsilon_if_a_server_lies == cost.epsilon > 0
        ledger.close()
    card = load(federation.coordinator.folder / "models" / f"{manifest.run}.npz").card
    assert (card["security"], card["own"]) == ("malicious", 1.0)
    assert card["epsilon_if_a_server_lies"] == card["epsilon"]
    assert "may do anything at all" in card["statement"]
    # Servers without a pool take part in nothing that needs one.
    joint = study("joint", PARTIES, DIMENSION, ROUNDS)
    first, second = joint.identities(Role.aggregator)
    server = read_node(federation.aggregators[0].folder)
    assert isinstance(server, AggregatorNode)
    (reason,) = reasons_against_server(joint, first, second, 0, server.noise)
    assert "noise.capacity is 0" in reason
    assert not reasons_against_server(manifest, first, second, 0, server.noise)
