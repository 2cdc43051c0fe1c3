"""Payloads get to both servers, in pieces and again."""

from typing import Any

import grpc
import numpy as np
import pytest

from parley.federation.rounds import BLIND_BYTES
from parley.federation.toml_text import toml_text
from parley.learning.contributor import Query
from tests.support.documents import PARTY_POLICY, manifest
from tests.support.party_process import EVERYONE, Running, contributor
from tests.support.restarts import POINTS, asked
from tests.support.stage import Response, Stage, question

pytestmark = pytest.mark.usefixtures("verified_in_process")


def test_an_aggregator_that_is_away_or_early_gets_the_bytes_later(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    left = [2]

    def trouble(request: Any, context: Any) -> Any:
        left[0] -= 1
        if left[0] == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "away")
        return Response(rejection=Response.REJECTION_TOO_EARLY) if left[0] == 0 else None

    stage.a.trouble = trouble
    with Running(stage):
        stage.coordinator.ask(asked(made, 0))
        expected = contributor(stage, made).contribution(Query(0, (POINTS[0],)))
        assert stage.opened(0).tolist() == expected.tolist()


def test_points_and_shares_over_a_mebibyte_travel_in_pieces_and_resume(stage: Stage) -> None:
    dimension = 150_000
    rng = np.random.default_rng(3)
    np.savez(stage.node / "records.npz", X=rng.uniform(-1, 1, (4, dimension)), y=np.array([0, 1, 1, 0]))
    stage.write_node(files="records.npz")
    features = {"count": dimension, "low": -1.0, "high": 1.0}
    target = {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]}
    stage.write_schema(toml_text({"units": 4, "format": "npz", "features": features, "target": target}))
    policy = PARTY_POLICY.replace("dimension = 1000", f"dimension = {dimension}")
    (stage.node / "policy.toml").write_text(policy)
    assert stage.seal().fits
    made = manifest(
        **{
            "model.dimension": dimension,
            "mechanism.noise_multiplier": 4.0,
            "mechanism.steps": 1,
            "parties.0.sampler": {"kind": "wor", "units": 4, "batch": 4},
            "noise.precision": "high",
            "schema": {"features": features, "target": target},
        }
    )
    stage.offer(made)
    dropped: list[int] = []

    def trouble(request: Any, context: Any) -> Any:
        if request.offset and not dropped:
            dropped.append(request.offset)
            stage.a.parts.clear()  # this server starts again: everything that it held is gone
            return Response(received=0)
        return None

    stage.a.trouble = trouble
    stage.coordinator.deaf = 1  # the first piece that is fetched is lost on its way
    with Running(stage):
        points = (rng.normal(size=dimension),)
        stage.coordinator.ask(question(made, 0, points))
        expected = contributor(stage, made).contribution(Query(0, points))
        assert stage.opened(0).tolist() == expected.tolist()
        assert dropped
        assert len(stage.a.payloads[0]) == BLIND_BYTES + 8 * dimension
