"""Both pools of two servers over real streams: what is made for whom, when nothing is made, what a liar comes to."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from fractions import Fraction
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from parley.aggregator import noise
from parley.aggregator.grpc_link import NoiseServicer, dial
from parley.aggregator.noise import BATCHES, LEAST_LANES, Breaks, Doors, Noise, Open, Ways, batch_lanes
from parley.federation.errors import EvidenceFileError, TrailError
from parley.mpc.covert import CovertSession
from parley.mpc.errors import FrameError, PeerClosedError, PeerError
from parley.mpc.evidence import MOST_LANES, Evidence
from parley.mpc.tables import load
from parley.node.authority import identity_uri
from parley.node.connections import KEEPALIVE
from parley.node.credentials import Identity
from parley.node.docket import Docket, Pair
from parley.node.evidence import EvidenceFolder
from parley.v1 import noise_pb2_grpc
from tests.support.both_links import dialling
from tests.support.caught import answer, signing_with
from tests.support.covert import Leak, lying
from tests.support.documents import manifest
from tests.support.until import until

COVERT = {"noise.security": "covert", "noise.audit": "1/4"}
LANES = 1024


@pytest.mark.parametrize(
    ("samples", "lanes"),
    [(1, 1024), (32 * 1024 - 1, 1024), (32 * 1024, 1024), (32 * 2048, 2048), (32 * 4095, 2048), (10**9, 16384)],
)
def test_batches_are_the_largest_of_which_a_run_needs_32(samples: int, lanes: int) -> None:
    assert batch_lanes(samples) == lanes
    assert lanes == LEAST_LANES or samples // lanes >= BATCHES
    assert lanes in (LEAST_LANES, MOST_LANES) or samples // (2 * lanes) < BATCHES


def test_the_smallest_open_run_says_how_large_batches_are_and_the_strictest_how_many_are_audited() -> None:
    small = manifest(run="small", **COVERT)
    large = manifest(run="large", **{**COVERT, "noise.audit": "1/8", "model.dimension": 100_000})
    assert batch_lanes(large.joint_samples) > batch_lanes(small.joint_samples) == LEAST_LANES
    plain = [manifest(run="plain"), manifest(run="own", **{"noise.security": "malicious", "noise.own": 1.0})]
    assert Open.of(plain) == Open()
    assert Open.of([*plain, large]) == Open(batch_lanes(large.joint_samples), Fraction(1, 8))
    assert Open.of([large, small]) == Open.of([small, *plain, large]) == Open(LEAST_LANES, Fraction(1, 4))


def test_three_breaks_in_an_hour_are_borne_and_a_fourth_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1e6]
    monkeypatch.setattr("parley.aggregator.noise.time.monotonic", lambda: clock[0])
    told: list[int] = []
    breaks = Breaks(told.append)
    for _ in range(3):
        breaks.add()
    clock[0] += 3601
    breaks.add()
    assert not breaks.too_many
    assert told == []
    for _ in range(3):
        clock[0] += 1000
        breaks.add()
    assert breaks.too_many
    assert told == [4]
    assert "broke off within an hour" in str(breaks)
    clock[0] += 3600 - 3000 + 1
    assert not breaks.too_many


# ------------------------------------------------------------ two servers


class End:
    """One server's noise, and its books."""

    def __init__(
        self, role: int, identities: tuple[Identity, Identity], channel: Any, folder: Path, workers: int = 1
    ) -> None:
        self.noted: list[str] = []
        self.cheated: list[Exception] = []
        self.full: Callable[[], object] = lambda: None
        """What a trail does when the disk is full."""
        pair: Pair = (identities[0].name, identities[1].name)
        pins = identities[role].pins
        self.name = pair[role]
        self.folder = EvidenceFolder(folder)
        self.docket = Docket(
            self.folder, lambda: pins, lambda: (pair,), lambda server: ["open"], lambda held: None, self._note,
            lambda digest: "evidence.kept" in self.noted,
        )  # fmt: skip
        self.doors = Doors(lambda: self.noise.wanted)
        ways = Ways(
            role=role,
            dialled=channel if role == 0 else None,
            doors=self.doors,
            signing=lambda: signing_with(identities[role], identities[1 - role], pair),
            keep=self.keep,
            hold=self.docket.hold,
            note=self._note,
        )
        self.noise = Noise(ways, load("strips", "standard"), 2 * LANES, self.folder.pending, self._cheat, workers)

    def keep(self, evidence: Evidence) -> None:
        self.docket.made(evidence)

    def _note(self, event: str, **fields: object) -> None:
        self.full()
        self.noted.append(event)

    def _cheat(self, error: Exception) -> None:
        self.full()
        self.cheated.append(error)

    @property
    def made(self) -> int:
        return self.noise.covert.level().produced


class Ends:
    """Both, over a stream of gRPC and TLS."""

    def __init__(
        self, identities: tuple[Path, Identity, Identity], folder: Path, workers: tuple[int, int] = (1, 1)
    ) -> None:
        _, a, b = identities
        self.b = End(1, (a, b), None, folder / "b", workers[1])
        self.server = grpc.server(futures.ThreadPoolExecutor(16), options=KEEPALIVE)
        doors = self.b.doors
        servicer = NoiseServicer(doors.plain.put, {identity_uri("a")}, doors.covert)
        noise_pb2_grpc.add_NoiseServiceServicer_to_server(servicer, self.server)
        credentials = grpc.ssl_server_credentials([(b.key, b.certificate)], b.authority, require_client_auth=True)
        port = self.server.add_secure_port("127.0.0.1:0", credentials)
        self.server.start()
        self.channel = dialling(f"127.0.0.1:{port}", a)
        self.a = End(0, (a, b), lambda: self.channel, folder / "a", workers[0])

    def follow(self, *runs: Any) -> None:
        for end in (self.a, self.b):
            end.noise.follow(runs)

    def start(self, plain: bool = False) -> None:
        for end in (self.a, self.b):
            end.noise.covert.start()
            if plain:
                end.noise.plain.start()

    def close(self) -> None:
        for end in (self.a, self.b):
            end.doors.close()
            end.noise.stop()
        self.channel.close()
        self.server.stop(None)


@pytest.fixture
def ends(
    identities: tuple[Path, Identity, Identity], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ends]:
    monkeypatch.setattr(noise, "MOST_LANES", LANES)  # so that a pool is full after four batches
    made = Ends(identities, tmp_path)
    yield made
    made.close()


class Sure(CovertSession):
    """Audits each batch: else one liar in ten fills the pool before it is caught, and is asked for no more batches."""

    def _coin(self) -> bool:
        return True


def both_sessions(
    lie: type[CovertSession], monkeypatch: pytest.MonkeyPatch, auditor: type[CovertSession] = CovertSession
) -> None:
    """B's are of this class, A's of that one."""

    def session(channel: Any, role: int, *rest: Any, **named: Any) -> CovertSession:
        made: CovertSession = (lie if role == 1 else auditor)(channel, role, *rest, **named)
        return made

    monkeypatch.setattr(noise, "CovertSession", session)


def test_audited_noise_is_made_while_a_run_needs_it_and_is_never_the_plain_pools(ends: Ends) -> None:
    ends.start(plain=True)
    until(lambda: ends.a.noise.plain.level().available and ends.b.noise.plain.level().available)
    assert ends.a.made == ends.b.made == 0
    with pytest.raises(PeerError, match="no open run needs audited noise"):
        ends.a.noise.covert.position(0.1)
    run = manifest(run="open", **COVERT)
    ends.a.noise.follow([run])  # A has admitted it, and B has not yet: it does not take the stream
    link = dial(ends.channel, covert=True)
    with pytest.raises(PeerClosedError, match="no open run of this server needs such noise"):
        link.receive(time.monotonic() + 20)
    assert ends.a.made == 0
    ends.follow(run)
    until(lambda: ends.a.made > LANES and ends.b.made > LANES)
    epoch, start = ends.a.noise.covert.position(10)
    assert epoch != ends.a.noise.plain.position(10)[0]
    places = [end.noise.covert.reserve(epoch, start, LANES + 100) for end in (ends.a, ends.b)]
    pieces = [
        np.concatenate(list(end.noise.covert.collect(place, 20)))
        for end, place in zip((ends.a, ends.b), places, strict=True)
    ]
    x = (pieces[0] + pieces[1]).view(np.int64) / 2.0**41
    assert 0.85 < x.std() < 1.15  # 1,124 samples: 7 deviations
    assert places[0].audits == places[1].audits[::-1], "what one has made by a sample, the other has passed by it"
    ends.follow()
    until(lambda: all("no open run" in end.noise.covert.level().resting for end in (ends.a, ends.b)))
    made = ends.a.made
    time.sleep(0.3)
    assert ends.a.made == made
    assert ends.a.noise.covert.level().available == 0
    assert ends.a.noise.plain.level().sessions == 1
    assert not ends.a.noise.demand().lanes
    assert ends.a.noted == ends.b.noted == []


def test_another_rate_begins_another_session(ends: Ends) -> None:
    ends.start()
    ends.follow(manifest(run="open", **COVERT))
    until(lambda: ends.a.made and ends.b.made)
    first, _ = ends.a.noise.covert.position(10)
    stricter = manifest(run="stricter", **{**COVERT, "noise.audit": "1/2"})
    ends.follow(manifest(run="open", **COVERT), stricter)
    until(lambda: ends.a.noise.covert.level().sessions > 1 and ends.a.noise.covert._epoch not in (b"", first))
    until(lambda: ends.a.noise.covert.level().available)


def test_a_small_run_draws_on_no_large_batches_that_were_made_before_it(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One spoiled batch of those would hold all its noise."""
    monkeypatch.setattr(noise, "MOST_LANES", 4 * LANES)
    for end in (ends.a, ends.b):
        end.noise.covert._lanes = 4 * LANES
        end.noise.covert._capacity = 16 * LANES
    large = manifest(run="large", **{**COVERT, "model.dimension": 100_000})
    small = manifest(run="small", **COVERT)
    ends.start()
    ends.follow(large)
    until(lambda: all(end.noise.covert.level().available > 2 * LANES for end in (ends.a, ends.b)))
    first, _ = ends.a.noise.covert.position(10)
    assert ends.a.noise.covert.level().lanes == 4 * LANES
    ends.follow(large, small)
    until(lambda: all(end.noise.covert._epoch not in (b"", first) for end in (ends.a, ends.b)))
    until(lambda: all(end.noise.covert.level().available for end in (ends.a, ends.b)))
    assert ends.a.noise.covert.level().lanes == LANES
    second, sessions = ends.a.noise.covert.position(10)[0], ends.a.noise.covert.level().sessions
    ends.follow(large)  # what is there is small enough for anybody
    time.sleep(0.3)
    assert (ends.a.noise.covert.position(10)[0], ends.a.noise.covert.level().sessions) == (second, sessions)


def test_a_stricter_run_gets_nothing_of_a_session_that_was_audited_less(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on for as long as the other server is silent between two batches, and half a second where the pool is
    full: noise of which fewer batches were audited than the run's claim says.
    """
    ends.start()
    ends.follow(manifest(run="open", **COVERT))
    until(lambda: ends.a.made and ends.b.made)
    pool = ends.a.noise.covert
    first, _ = pool.position(10)
    with monkeypatch.context() as patched:
        patched.setattr(ends.b.noise.covert, "wait", lambda turn: time.sleep(1.0))
        patched.setattr(ends.b.noise.covert, "wants", lambda turn: time.sleep(1.0))
        ends.a.noise.follow([manifest(run="stricter", **{**COVERT, "noise.audit": "1/2"})])
        with pytest.raises(PeerError, match="no noise"):
            pool.position(0, Fraction(1, 2))
    ends.b.noise.follow([manifest(run="stricter", **{**COVERT, "noise.audit": "1/2"})])
    assert pool.position(20, Fraction(1, 2))[0] != first
    assert pool.position(0, Fraction(1, 4))[0] == pool.position(0)[0]


def test_a_small_run_gets_nothing_of_a_session_that_has_made_larger_batches(ends: Ends) -> None:
    """It may go on for a while, where the other server is silent."""
    ends.start()
    ends.follow(manifest(run="open", **COVERT))
    until(lambda: ends.a.noise.covert.level().available)
    pool = ends.a.noise.covert
    assert pool.position(0, 0, LANES)[0]
    with pytest.raises(PeerError, match="no noise"):
        pool.position(0, 0, LANES - 1)


@pytest.mark.slow
def test_a_server_that_lies_is_caught_and_nothing_more_is_made_with_it(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_sessions(lying(Leak), monkeypatch, Sure)
    ends.start(plain=True)
    ends.follow(manifest(run="open", **{**COVERT, "noise.audit": "1/2"}))
    until(lambda: ends.a.folder.pending())
    (held,) = ends.a.folder.pending()
    assert held.server == ends.b.name
    assert held.runs == ("open",)
    until(lambda: "parley evidence answer" in ends.a.noise.covert.level().resting)
    until(lambda: [type(error).__name__ for error in ends.a.cheated] == ["CaughtError"])
    assert ends.a.noted == ["evidence.kept"]
    assert ends.b.folder.all() == [], "it could accuse nobody"
    assert not ends.a.noise._breaks.too_many
    sessions = ends.a.noise.covert.level().sessions
    time.sleep(1.2)
    assert ends.a.noise.covert.level().sessions == sessions
    assert ends.a.noise.plain.level().available, "what is not audited goes on, for runs that never said otherwise"
    answer(ends.a.folder, held.digest)
    both_sessions(CovertSession, monkeypatch)
    until(lambda: ends.a.noise.covert.level().sessions > sessions)


def test_evidence_that_the_disk_does_not_take_is_offered_again_and_nothing_is_made_before(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_sessions(lying(Leak), monkeypatch, Sure)
    keep, tries = ends.a.docket.folder.keep, list[int]()

    def full(data: bytes) -> str:
        tries.append(ends.a.noise.covert.level().sessions)
        if len(tries) < 4:
            raise EvidenceFileError("evidence cannot be kept (no space): free the disk")
        return keep(data)

    monkeypatch.setattr(ends.a.docket.folder, "keep", full)
    ends.start()
    ends.follow(manifest(run="open", **{**COVERT, "noise.audit": "1/2"}))
    until(lambda: ends.a.folder.pending())
    assert len(set(tries)) == 1, "no session was begun between"


def test_a_full_disk_that_takes_no_line_of_the_trail_either_loses_no_evidence(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or whoever fills a disk cheats for nothing: what is told of a session's end must not end the pool itself."""
    both_sessions(lying(Leak), monkeypatch, Sure)
    keep, freed, refused = ends.a.docket.folder.keep, threading.Event(), threading.Event()

    def full() -> None:
        if not freed.is_set():
            refused.set()
            raise TrailError("trail.jsonl cannot be written (the disk is full): free the disk")

    def kept(data: bytes) -> str:
        full()
        return keep(data)

    monkeypatch.setattr(ends.a.docket.folder, "keep", kept)
    ends.a.full = full
    ends.start()
    ends.follow(manifest(run="open", **{**COVERT, "noise.audit": "1/2"}))
    until(lambda: refused.is_set() and not ends.a.noise.covert._epoch)
    until(lambda: "caught" in ends.a.noise.covert.level().resting)
    freed.set()
    until(lambda: ends.a.folder.pending())


@pytest.mark.slow
def test_sessions_that_break_off_again_and_again_stop_it_until_somebody_has_looked(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(CovertSession):
        def samples(self, lanes: int) -> Any:
            self.channel.close("out of order")
            raise FrameError("out of order")

    both_sessions(Breaking, monkeypatch)
    ends.start()
    ends.follow(manifest(run="open", **COVERT))
    until(lambda: "noise.stopped" in ends.a.noted)
    assert ends.a.noise.covert.level().sessions == noise.MOST_BREAKS + 1
    until(lambda: "broke off within an hour" in ends.a.noise.covert.level().resting)
    with pytest.raises(PeerError, match="broke off within an hour"):
        ends.a.noise.covert.position(0.1)
    assert ends.a.noted == ["noise.stopped"]
    assert ends.a.folder.all() == []


@pytest.mark.slow
def test_a_server_that_goes_away_between_batches_is_no_break(ends: Ends) -> None:
    ends.start()
    run = manifest(run="open", **COVERT)
    ends.follow(run)
    until(lambda: not ends.a.noise.covert._filling and not ends.b.noise.covert._filling)
    for _ in range(noise.MOST_BREAKS + 1):
        sessions = ends.a.noise.covert.level().sessions
        ends.b.noise.follow([])
        until(lambda: "no open run" in ends.b.noise.covert.level().resting)
        ends.b.noise.follow([run])
        until(lambda sessions=sessions: ends.a.noise.covert.level().sessions > sessions)  # type: ignore[misc]
        until(lambda: not ends.a.noise.covert._filling and not ends.b.noise.covert._filling)
    assert not ends.a.noise._breaks.too_many
    assert ends.a.noted == []
