"""What one run is on one aggregation server, and its conversations with the other one: opening, and settling.

Lives on the event loop; arithmetic, SQLite and the conversation itself run in worker threads. `_turn` is held for each
conversation, so that an end waits for it and nothing overlaps.
"""

import asyncio
import functools
import time
from collections.abc import Callable

from parley.aggregator.opening import RolledBackError, RoundLostError, TooFewError
from parley.aggregator.opening_store import Phase, Stored
from parley.aggregator.peer import FRAME_SECONDS, Conversation, PeerLostError
from parley.aggregator.refusals import CallRefusedError, malformed
from parley.aggregator.request import Request
from parley.aggregator.rounds import Result, Round, ShortError
from parley.aggregator.server import Server
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName
from parley.federation.rounds import MOST_WAIT_SECONDS
from parley.mpc.errors import MpcError
from parley.node.relay import Keys
from parley.node.statements import audits_stated
from parley.v1 import aggregator_pb2 as wire
from parley.v1 import common_pb2

MOST_STATEMENTS, MOST_STATEMENT_BYTES = 64, 2 << 20
"""In one answer."""
SETTLE_SECONDS = 2.0
"""After the last opening: time for the next one to say that it has gone well on the other server."""


class RunState:
    """The part of a run that speaks with the other server."""

    def __init__(self, manifest: Manifest, server: Server) -> None:
        self.manifest, self._server, self._store = manifest, server, server.store
        self.opened = self._store.counts(manifest.run).mine
        self.openings = self._store.ended(manifest.run)
        """How many there were, once the run has ended here."""
        self.event = ""
        """The newest of this run in this server's trail, which answers mention."""
        self.heard: dict[NodeName, str] = {}
        """Of each caller the newest event that it has mentioned."""
        self.keys = Keys()
        """On server B: under which halves may come through A."""
        self._rounds: dict[int, Round] = {}
        self._prepared = self._unsettled() is not None
        """The round to open has a share already, whose set is fixed: whoever comes now may be too late."""
        self._acknowledged: dict[int, dict[str, tuple[bytes, bytes]]] = {}
        """Of the two newest opened rounds: for whose upload there is a receipt; its question and its digest."""
        self._request: Request | None = None
        self._turn = asyncio.Lock()
        self._change = asyncio.Event()
        self._attempt: asyncio.Task[Result] | None = None
        self._attempted = -1
        self._waiting: Conversation | None = None
        """A conversation that has not begun in earnest: an end need not wait for it."""
        self._latest: tuple[int, Result] | None = None
        self._failure: Exception | None = None
        self._lost: MpcError | None = None
        """Why no further round can be opened; only the end is left."""
        self._settled = self._ending = False
        self._stream = 0
        self._checks: set[asyncio.Task[None]] = set()
        self._check_timer: asyncio.TimerHandle | None = None

    @property
    def _grace(self) -> float:
        return min(MOST_WAIT_SECONDS, self.manifest.deadline_seconds) + 1

    def _note(self, event: str, **facts: object) -> None:
        """With what callers have mentioned since the last one."""
        heard = sorted(self.heard.values())
        self.heard.clear()
        self.event = self._server.note(event, run=self.manifest.run, peer_events=heard, **facts)

    def _require_admitted(self) -> None:
        """It may have been withdrawn since it was asked for, or the other server caught."""
        if self._server.admissions.manifest(self.manifest.digest) is None:
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_ADMITTED, f"run {self.manifest.run} is withdrawn here", "end the run"
            )
        if (held := self._server.held_against(self.manifest)) is not None:
            raise CallRefusedError(common_pb2.REFUSAL_CAUGHT, str(held), "fetch the evidence, and verify it")

    def _require_open(self) -> None:
        self._require_admitted()
        if self.openings is not None or self._ending:
            raise CallRefusedError(common_pb2.REFUSAL_TOO_LATE, f"run {self.manifest.run} has ended", "start another")

    async def _converse(
        self, current: Round, fixed: Request, connect: Callable[[], Conversation], ready: float
    ) -> Result:
        """Both servers' part, `turn` being held."""
        times = [ready, ready]

        def agreed(again: int) -> None:
            """On who is in the sum; no noise is touched yet, or nobody has seen what became of it."""
            self._require_admitted()
            self._waiting = None
            times.append(time.monotonic())
            if again:
                self._server.note("round.noised_again", run=self.manifest.run, round=current.index, attempts=again)

        def talk() -> Result:
            contributions = current.contributions()
            self._waiting = channel = connect()
            try:
                pending = [held.digest for held in self._server.pending()]
                sign = functools.partial(self._server.signer.statement, self.manifest, pending=pending)
                opened = self._server.opener.open(channel, fixed, contributions, agreed, sign)
                channel.finish()
            finally:
                self._waiting = None
                channel.close()
            begun = current.started or ready
            return Result(opened, ready - begun, times[-1] - ready, time.monotonic() - times[-1])

        current.taken = True
        if self._latest is not None and self._latest[0] < current.index:
            self._latest = None  # who asks for it still gets it from the store: of a large model one share is held
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._server.workers, talk)
        except TooFewError as few:
            raise ShortError([party for party in current.expected if party not in few.parties]) from None
        finally:
            current.taken = False
            self._look()
        self._latest = (current.index, result)
        present = len(result.opened.contributors)
        audits = audits_stated(result.opened.statement, self._server.role)
        self._note("round.opened", round=current.index, present=present, **audits)
        self._check_later()
        return result

    def _look(self) -> None:
        """What is durable now: counts, and what need not be kept any more."""
        self.opened = self._store.counts(self.manifest.run).mine
        self._prepared = self._unsettled() is not None
        for index in [index for index in self._rounds if index < self.opened]:
            over = self._rounds.pop(index)
            self._acknowledged[index] = over.in_time()
            over.erase()
        for index in [index for index in self._acknowledged if index < self.opened - 2]:
            del self._acknowledged[index]
        self.keys.forget_before(self.opened)
        self._changed()

    def _kept(self, index: int) -> Result:
        stored = self._store.find(self.manifest.run, index)
        if stored is None or stored.phase is not Phase.committed:
            raise RoundLostError(f"round {index} of run {self.manifest.run} is not in this server's store")
        return self._latest[1] if self._latest and self._latest[0] == index else Result(stored.opened)

    def _fixed(self, index: int, length: int, query: bytes) -> Request:
        """What fixes the opening of a round; made once for all who ask for it."""
        made = self._request
        if made is None or (made.round, made.dimension, made.query) != (index, length, query):
            made = self._request = Request.of(self.manifest, index, length, query)
        return made

    # ------------------------------------------------------------ what this server signs

    def _receipt(self, index: int, query: bytes, digest: bytes) -> bytes:
        return self._server.signer.receipt(self.manifest, index, query, digest)

    def statements(self, party: str, request: wire.StatementsRequest) -> wire.StatementsResponse:
        """What this server has signed of opened rounds, and for this party's upload to the first of them."""
        index = request.round
        if not (1 <= request.most <= MOST_STATEMENTS and index < self.manifest.releases):
            raise malformed(f"{request.most} statements from round {index}", f"ask for 1 to {MOST_STATEMENTS}")
        answer, room = wire.StatementsResponse(), MOST_STATEMENT_BYTES
        for word in self._store.statements(self.manifest.run, index, request.most):
            room -= len(word)
            if room < 0 and answer.statements:
                break  # asked again from there
            answer.statements.add().ParseFromString(word)
        if (held := self._acknowledged.get(index, {}).get(party)) is not None:
            answer.receipt.ParseFromString(self._receipt(index, *held))
        return answer

    # ------------------------------------------------------------ after a crash

    def _unsettled(self) -> Stored | None:
        """What was prepared here and has no fate yet."""
        stored = self._store.find(self.manifest.run, self.opened)
        return stored if stored is not None and stored.phase is Phase.prepared else None

    async def _settle(self) -> None:
        """Server A: bring both servers to one state, as after a crash of either."""
        dial = self._server.dial
        assert dial is not None
        async with self._turn:
            counts = self._store.counts(self.manifest.run)
            rounds = [self.opened - 1] if counts.seen < counts.mine else []
            for index in [*rounds, self.opened]:
                await self._settle_over(lambda at=index: dial(self.manifest.digest, at, True, FRAME_SECONDS), index)  # type: ignore[misc]
            self._settled = True
        if self._ahead():
            self._check_later()  # it has committed because the other one would: which may have died of that

    def _ahead(self) -> bool:
        """Whether this server has commits that the other one has not told of itself."""
        counts = self._store.counts(self.manifest.run)
        return counts.seen < counts.mine

    async def _settle_over(self, connect: Callable[[], Conversation], index: int) -> None:
        def talk() -> None:
            channel = connect()
            try:
                self._server.opener.settle(channel, self.manifest.run, index)
                channel.finish()
            finally:
                channel.close()

        try:
            await asyncio.get_running_loop().run_in_executor(self._server.workers, talk)
        finally:
            self._look()

    def check_soon(self) -> None:
        """Server A, at its start: a crash may have left something."""
        if self._server.dial is not None and self.openings is None:
            self._check_later(0.0)

    def _check_later(self, seconds: float = SETTLE_SECONDS) -> None:
        """The next opening shows that the last one went well on the other server; if none comes, ask."""
        if self._server.dial is None:
            return
        if self._check_timer is not None:
            self._check_timer.cancel()
        self._check_timer = asyncio.get_running_loop().call_later(seconds, self._begin_check, seconds)

    def _begin_check(self, seconds: float) -> None:
        task = asyncio.create_task(self._check(seconds))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _check(self, seconds: float) -> None:
        if self._attempt is not None and not self._attempt.done():
            return
        try:
            await self._settle()
        except (RoundLostError, RolledBackError, PeerLostError) as error:
            self._lost = error
        except MpcError:
            self._check_later(min(2 * seconds + 0.5, MOST_WAIT_SECONDS))
        except Exception:  # a defect, and logged as one; the other server may wait for this and for nothing else
            self._check_later(MOST_WAIT_SECONDS)
            raise

    # ------------------------------------------------------------ waiting

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    async def _wait_for_change(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._change.wait()
        except TimeoutError:
            pass
