"""A batch once more from its openings: the same messages and the same shares, on either kernel."""

from typing import Any
from unittest import mock

import numpy as np
import pytest

from parley.mpc import covert
from parley.mpc.handover import Masks, Opening
from parley.mpc.kernels import kernels
from parley.mpc.replay import Server
from parley.mpc.steps import Steps
from parley.mpc.tables import Cover, Precision, load
from tests.support.covert import QUIET, run


def lockstep(ends: list[Steps[Any]]) -> tuple[list[Any], list[list[bytes]]]:
    """Results, and what each end said."""
    said: list[list[bytes]] = [[], []]
    frames = [next(end) for end in ends]
    while True:
        for role in (0, 1):
            said[role].append(b"".join(piece.tobytes() for piece in frames[role]))
        results, following = [], []
        for role in (0, 1):
            try:
                following.append(ends[role].send(frames[1 - role]))
            except StopIteration as stop:
                results.append(stop.value)
        if results:
            return results, said
        frames = following


@pytest.mark.parametrize(("cover", "precision"), [("strips", "standard"), ("strips", "high"), ("rectangle", "high")])
@pytest.mark.parametrize("fast", [False, True])
def test_a_replay_gives_the_batchs_frames_and_shares(cover: Cover, precision: Precision, fast: bool) -> None:
    """The batch on the fastest kernel and its replay on the baseline, or the other way round; dithers are not on the
    tape.
    """
    made, again = (kernels(), kernels("baseline")) if fast else (kernels("baseline"), kernels())
    tables, lanes = load(cover, precision), 64
    openings: dict[int, Opening] = {}
    names: set[bytes] = set()
    frames: dict[int, list[bytes]] = {0: [], 1: []}
    answered, recorded = Masks.answered, covert._recorded

    def noted(self: Masks, y: bytes, witness: bytes, opening: Opening) -> tuple[bytes, bytes]:
        openings[self.sender] = opening
        names.add(self.batch)
        return answered(self, y, witness, opening)

    def kept(protocol: Any, sent: list[Any], got: list[Any]) -> Steps[Any]:
        role = protocol.gi_frame.f_locals["self"]._role
        result = yield from recorded(protocol, sent, got)
        frames[role] = [b"".join(piece.tobytes() for piece in frame) for frame in sent]
        return result

    with (
        mock.patch.object(Masks, "answered", noted),
        mock.patch.object(covert, "_recorded", kept),
        mock.patch.object(covert, "dither", lambda tables, count, rng: np.zeros(count, np.uint64)),
    ):
        ends = run(1, classes=(QUIET, QUIET), lanes=lanes, tables=tables, natives=(made, made))
    assert ends[0].error is ends[1].error is None
    (batch,) = names
    servers = [Server(again, tables, role, batch, openings[role]) for role in (0, 1)]
    for role in (0, 1):
        servers[role]._source.learn(openings[role].delta_bits, servers[1 - role].leaves)
    views, said = lockstep([server._sampler.view(lanes) for server in servers])
    accepted = (views[0].accepted ^ views[1].accepted).astype(bool)
    for role in (0, 1):
        assert said[role] == frames[role]
        assert (views[role].product[accepted] == ends[role].batches[0]).all()
