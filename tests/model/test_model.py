"""The whole system under every misfortune that can be drawn: crashes, replays, loss, delay, partitions, deadlines.

Janus' habit: what runs is the product's own state machines (aggregator, coordinator, party) with their real files; the
network, the clock and death are the test's. Contributions are one-hot and noise is zero, so that a sum says who is in
it: twice what belongs there betrays a replay, nothing where a party is not named missing a silent loss.
"""

import contextlib
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from parley.aggregator.opening import MOST_NOISINGS
from parley.coordinator.store import State
from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.mpc import crash
from tests.end_to_end.killing import ROUNDS as ROUND_LABELS
from tests.model.model_lead import Lead
from tests.model.model_parties import Party, contribution_of
from tests.model.model_servers import Gone, Network, Server
from tests.model.virtual import NODE, Died, World
from tests.support import documents

ROUNDS = 8
SILENT = {"run": "model", "mechanism.steps": ROUNDS - 1, "noise.own": 0.0}  # what the servers sample is zeros
MANIFEST = documents.manifest(**SILENT, **{"rounds.deadline_seconds": 30.0})
RARE = ("discarded", "ended")
LABELS = {
    **{name: [f"aggregator.{each}" for each in (*ROUND_LABELS[Role.aggregator], *RARE)] for name in "AB"},
    "lead": [f"coordinator.{each}" for each in (*ROUND_LABELS[Role.coordinator], "running", "result", "ended")],
    **{name: [f"party.{each}" for each in ROUND_LABELS[Role.party]] for name in MANIFEST.parties},
}
DEATHS = [(name, label) for name, labels in LABELS.items() for label in labels]
SERVER_DEATHS = [death for death in DEATHS if death[0] in "AB"]
SHORT = st.sampled_from([0.0, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05])
"""A call takes a millisecond, a round about six."""
NAMES = ("A", "B", "lead", *MANIFEST.parties)
PAIRS = [("A", "B"), ("lead", "A"), ("lead", "B")] + [
    (party, other) for party in MANIFEST.parties for other in ("A", "B", "lead")
]
LONG_SECONDS = 1500.0


class WholeSystem(RuleBasedStateMachine):
    """Three parties, two aggregation servers, a coordinator."""

    manifest: Manifest = MANIFEST

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        path = Path(self.folder.name)
        self.world = World()
        self.patches: list[Any] = [
            mock.patch.object(time, "monotonic", self.world.loop.time),
            mock.patch.object(crash, "point", self._point),
            mock.patch("parley.coordinator.controls.refusal_of", return_value=None),
            mock.patch("parley.party.run.log"),
            mock.patch("parley.party.uploads.log"),
            mock.patch("parley.coordinator.parties.peer_of", lambda context: context.name),
        ]
        for patch in self.patches:
            patch.start()
        self.armed: dict[str, list[Any]] = {}
        session = [0]
        a, b = (Server(self.world, self.manifest, role, path / f"{role}.sqlite", session) for role in (0, 1))
        a.other, b.other = b, a
        self.servers = (a, b)
        self.lead = Lead(self.world, self.manifest, path / "runs.sqlite", self.servers)
        self.parties = [
            Party(self.world, self.manifest, place, path / f"{name}.sqlite")
            for place, name in enumerate(self.manifest.parties)
        ]
        everybody: list[Server | Lead | Party] = [a, b, self.lead, *self.parties]
        self.nodes = {node.name: node for node in everybody}
        self.network = Network(self.world)
        for node in self.nodes.values():
            node.network = self.network
        for party in self.parties:
            party.lead, party.servers = self.lead, self.servers

    def _point(self, label: str) -> None:
        node = NODE.get()
        if node is None or node.dead:
            return
        armed = self.armed.get(node.name)
        if armed is not None and armed[0] == label:
            armed[1] -= 1
            if not armed[1]:
                del self.armed[node.name]
                node.die()
                raise Died

    @initialize(calm_rounds=st.integers(-1, 2))
    def begin(self, calm_rounds: int = 0) -> None:
        """Misfortunes begin at once, or when the run is in its rounds."""
        for node in self.nodes.values():
            node.start()
        self.lead.submit()
        for _ in range(1000 if calm_rounds >= 0 else 0):
            row = self.lead.store.get(self.manifest.digest)
            if row is not None and row.state is State.running and row.round >= calm_rounds:
                break
            self.world.advance(0.001)

    # ------------------------------------------------------------ misfortunes

    @rule(seconds=SHORT)
    def a_moment_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(seconds=st.sampled_from([0.3, 2.5, 31.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(name=st.sampled_from(NAMES), seconds=SHORT)
    def somebody_dies(self, name: str, seconds: float) -> None:
        self.nodes[name].die()
        self.world.advance(seconds)

    @rule(name=st.sampled_from(NAMES), seconds=SHORT)
    def somebody_dies_and_comes_back(self, name: str, seconds: float) -> None:
        self.somebody_dies(name, seconds)
        self.restart(name, seconds)

    @rule(what=st.sampled_from(DEATHS), count=st.integers(1, 2), seconds=SHORT)
    def will_crash_at(self, what: tuple[str, str], count: int, seconds: float) -> None:
        name, label = what
        self.armed[name] = [label, count]
        self.world.advance(seconds)

    @rule(what=st.sampled_from(DEATHS), count=st.integers(1, 2), down=SHORT)
    def somebody_dies_at_a_label_and_comes_back(self, what: tuple[str, str], count: int, down: float) -> None:
        """Everybody else is well, so that the label is reached."""
        self._recover()
        self.armed[what[0]] = [what[1], count]
        for _ in range(60):
            self.world.advance(0.002)
            if self.nodes[what[0]].dead:
                break
        self.world.advance(down)
        self.restart(what[0], down)

    @rule(first=st.sampled_from(SERVER_DEATHS), second=st.sampled_from(SERVER_DEATHS), down=SHORT, later=SHORT)
    def both_servers_die(self, first: tuple[str, str], second: tuple[str, str], down: float, later: float) -> None:
        self._recover()
        for name, label in (first, second):
            self.armed[name] = [label, 1]
        self.world.advance(0.05)
        self.restart(first[0], down)
        self.restart(second[0], later)

    @rule(party=st.sampled_from(MANIFEST.parties), away=st.sampled_from(["A", "B", "lead", "dead"]), seconds=SHORT)
    def a_party_is_away_past_a_deadline(self, party: str, away: str, seconds: float) -> None:
        """From one server only, too: then its contribution is on the other one."""
        self._recover()
        if away == "dead":
            self.nodes[party].die()
        else:
            self.network.cut.add(frozenset((party, away)))
        self.world.advance(31.0 + seconds)

    def _recover(self) -> None:
        self.network.cut.clear()
        self.network.fates.clear()
        for name in NAMES:
            self.restart(name, 0.0)

    @rule(name=st.sampled_from(NAMES), seconds=SHORT)
    def restart(self, name: str, seconds: float) -> None:
        node = self.nodes[name]
        if node.dead:
            node.start()
            self._submit_again()
        self.world.advance(seconds)

    @rule(seconds=SHORT)
    def everybody_recovers(self, seconds: float) -> None:
        self._recover()
        self.world.advance(seconds)

    @rule(
        pair=st.sampled_from(PAIRS),
        fates=st.lists(st.sampled_from(["drop", "mute", "twice", "late"]), min_size=1, max_size=3),
        seconds=SHORT,
    )
    def calls_go_wrong(self, pair: tuple[str, str], fates: list[str], seconds: float) -> None:
        self.network.fates[pair] = fates
        self.world.advance(seconds)

    @rule(pair=st.sampled_from(PAIRS), seconds=SHORT)
    def partition(self, pair: tuple[str, str], seconds: float) -> None:
        self.network.cut.add(frozenset(pair))
        self.world.advance(seconds)

    @precondition(lambda self: self.network.replays)
    @rule(which=st.integers(0, 63))
    def an_old_message_comes_again(self, which: int) -> None:
        _, make = self.network.replays[which % len(self.network.replays)]
        self.world.loop.create_task(self._quietly(make))
        self.world.advance(0.001)

    @staticmethod
    async def _quietly(make: Any) -> None:
        with contextlib.suppress(Exception):  # a refusal is as good as an answer here
            await make()

    def _submit_again(self) -> None:
        """The operator's word was lost with the process."""
        if not self.lead.dead and self.lead.store.get(self.manifest.digest) is None:
            with contextlib.suppress(Gone):
                self.lead.submit()

    # ------------------------------------------------------------ what holds at any time

    @invariant()
    def a_sum_opens_once_and_nobody_is_in_it_twice(self) -> None:
        for index, openings in self.lead.notes.openings.items():
            first = openings[0]
            for opening in openings:
                assert opening.contributors == first.contributors, index
                assert np.array_equal(opening.total, first.total), index
            assert len(first.contributors) == len(set(first.contributors)) >= self.manifest.minimum_parties
            length = self.manifest.model.dimension
            due = sum(
                contribution_of(party.place, index, length)
                for party in self.parties
                if party.name in first.contributors
            )
            assert np.array_equal(first.total, due), (index, first.total, first.contributors)
        for server in self.servers:
            assert all(len(shares) == 1 for shares in server.released.values()), server.name
        assert all(len(digests) == 1 for digests in self.lead.notes.recorded.values())

    @invariant()
    def what_leaves_a_party_is_charged_and_never_another_thing(self) -> None:
        for party in self.parties:
            assert party.failure is None, party.failure
            for (index, _), sent in party.sent.items():
                assert len(sent) == 1, (party.name, index)
                assert index in party.recorded, (party.name, index)

    @invariant()
    def counts_never_go_down(self) -> None:
        for server in self.servers:
            if server.dead:
                continue
            mine = server.look()
            assert mine >= server.most_opened, server.name
            server.most_opened = mine

    @invariant()
    def whoever_is_not_in_a_sum_is_named(self) -> None:
        if self.lead.dead:
            return
        for record in self.lead.store.history(self.manifest.digest):
            opened = self.lead.notes.openings[record.round][0]
            assert tuple(record.contributors) == opened.contributors
            assert not set(record.contributors) & set(record.missing)

    # ------------------------------------------------------------ what holds in the end

    def teardown(self) -> None:
        try:
            self._end()
        finally:
            for node in self.nodes.values():
                node.die()
            self.world.close()
            for patch in self.patches:
                patch.stop()
            self.folder.cleanup()

    def _end(self) -> None:
        """Everything heals: the run finishes, with everybody in it or named."""
        self.armed.clear()
        self._recover()
        self._submit_again()
        for _ in range(4):
            self.world.advance(LONG_SECONDS)
            row = self.lead.store.get(self.manifest.digest)
            if row is None or not row.state.resumable:
                break
            self.lead.resume()
        assert row is not None
        if row.state is State.failed and ("came to nothing" in row.outcome or "has ended" in row.outcome):
            # More crashes in one round than its noise may come to nothing: by a server's own count, and for good. A
            # coordinator that died of it while it ended the run at one server hears from that one that it has ended.
            servers = [node for node in self.nodes.values() if isinstance(node, Server)]
            assert max(each.store.wasted(self.manifest.run, row.round) for each in servers) >= MOST_NOISINGS
            return
        assert row.state is State.finished, (row.state, row.outcome, row.round)
        self.world.advance(60.0)
        self.a_sum_opens_once_and_nobody_is_in_it_twice()
        self.what_leaves_a_party_is_charged_and_never_another_thing()
        history = self.lead.store.history(self.manifest.digest)
        assert [record.round for record in history] == list(range(self.manifest.releases))
        for record in history:
            named = set(record.contributors) | set(record.missing)
            assert named == set(self.manifest.parties), (record.round, named)
        assert all(party.ended for party in self.parties)
        assert [server.look() for server in self.servers] == [self.manifest.releases] * 2
        assert set(self.lead.notes.recorded) == set(range(self.manifest.releases))


def test_a_server_that_dies_while_it_settles_is_settled_with_again() -> None:
    """A has committed and believes B to have: a round that B was never asked about again, and a run without an end."""
    system = WholeSystem()
    try:
        system.begin(0)
        for label in ("aggregator.agreeing", "aggregator.committing"):
            system.armed["B"] = [label, 1]
            system.world.advance(0.5)
            assert system.nodes["B"].dead
            system.restart("B", 0.0)
    finally:
        system.teardown()


@pytest.mark.parametrize("talking", [True, False])
def test_a_server_that_stops_erases_no_share_under_a_conversation(talking: bool) -> None:
    """A worker that goes on adding zeros up would commit a sum of nothing but randomness."""
    system = WholeSystem()
    try:
        system.begin(0)
        system.network.cut.add(frozenset("AB"))
        run = system.servers[0].run
        for _ in range(1000):
            if any(each.complete() for each in run._rounds.values()):
                break
            system.world.advance(0.001)
        held = [upload for each in run._rounds.values() for upload in each.complete()]
        assert held
        if talking:
            system.world.loop.run_until_complete(run._turn.acquire())
        run.close()
        assert all(any(upload._store.block(0)) == talking for upload in held)
    finally:
        system.servers[0].die()
        system.teardown()


def test_an_error_that_nobody_foresaw_stalls_a_run_which_can_be_resumed() -> None:
    """Not a run that is called running and that nothing drives."""
    system = WholeSystem()
    try:
        system.begin(1)
        with mock.patch.object(system.lead.notes, "record", side_effect=OSError("no space left")):
            system.world.advance(1.5)
        row = system.lead.store.get(MANIFEST.digest)
        assert row is not None
        assert (row.state, "OSError" in row.outcome) == (State.stalled, True)
    finally:
        system.teardown()


class LongDeadline(WholeSystem):
    """A round may wait longer than one server is patient with the other."""

    manifest = documents.manifest(**SILENT, **{"rounds.deadline_seconds": 60.0})


@pytest.mark.parametrize("restarted", ["A", "B"])
def test_a_server_that_restarts_while_a_party_is_away_is_not_out_of_step_for_ever(restarted: str) -> None:
    """Their deadlines begin forty seconds apart, and each waited thirty for the other."""
    system = LongDeadline()
    try:
        system.begin(1)
        system.nodes[MANIFEST.parties[2]].die()
        system.world.advance(40.0)
        system.somebody_dies_and_comes_back(restarted, 0.01)
        before = system.lead.store.get(system.manifest.digest)
        system.world.advance(400.0)
        after = system.lead.store.get(system.manifest.digest)
        assert before is not None
        assert after is not None
        assert after.round > before.round or after.state is State.finished
    finally:
        system.teardown()


def test_a_short_round_waits_for_its_parties_as_often_as_it_should() -> None:
    """Two of three are away: one comes back before the last deadline, and the run goes on."""
    system = LongDeadline()
    try:
        system.begin(1)
        for party in MANIFEST.parties[1:]:
            system.nodes[party].die()
        system.world.advance(125.0)
        row = system.lead.store.get(system.manifest.digest)
        assert row is not None
        assert row.state is State.running
        system.restart(MANIFEST.parties[1], 60.0)
        row = system.lead.store.get(system.manifest.digest)
        assert row is not None
        assert row.state is not State.stalled
    finally:
        system.teardown()


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
DEFAULT = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=QUIET,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)  # fmt: skip


@pytest.mark.parametrize("system", [WholeSystem, pytest.param(LongDeadline, marks=pytest.mark.slow)])
def test_no_schedule_counts_a_contribution_twice_or_loses_one_silently(system: type[WholeSystem]) -> None:
    run_state_machine_as_test(system, settings=settings(DEFAULT, max_examples=50))


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.long) for part in (2, 3))])
def test_no_schedule_among_thousands_does(part: int) -> None:
    """5,000 in all, in parts that run side by side; half of them in CI."""
    run_state_machine_as_test(WholeSystem, settings=settings(DEFAULT, max_examples=1250, stateful_step_count=40))
