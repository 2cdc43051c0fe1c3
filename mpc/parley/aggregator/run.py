"""One run on one aggregation server: rounds in order, each opened once, then the end.

What the coordinator asks for, and what server A asks of B; uploads are in `intake`, conversations in `state`.
"""

import asyncio
import time

from parley.aggregator.intake import Intake
from parley.aggregator.opening import RolledBackError, RoundLostError
from parley.aggregator.opening_store import Phase, RefusedError
from parley.aggregator.peer import (
    FRAME_SECONDS,
    LOST,
    SHORT,
    UNREADY,
    AnsweringLink,
    Conversation,
    Halves,
    PeerLostError,
    PeerShortError,
)
from parley.aggregator.refusals import CallRefusedError, CallWaitsError, malformed
from parley.aggregator.request import Request
from parley.aggregator.rounds import Result, Round, ShortError, refusal_for
from parley.federation.rounds import DIGEST_BYTES, PIECE_BYTES, bounded_wait
from parley.mpc.errors import MpcError, PeerError, SessionClosedError
from parley.node.backoff import Backoff
from parley.v1 import aggregator_pb2 as wire
from parley.v1 import common_pb2

BACKOFF_SECONDS = (0.05, 2.0)


class Run(Intake):
    """The state machine."""

    # ------------------------------------------------------------ opening

    async def open(self, request: wire.OpenRequest) -> wire.OpenResponse:
        """Start, go on with or look at the opening of one round."""
        index = request.round
        fixed = self._checked(request)
        if index < self.opened:
            return self._response(index, self._result(index, fixed), request)
        if self.openings is not None or self._ending:
            raise CallRefusedError(
                common_pb2.REFUSAL_TOO_LATE, f"run {self.manifest.run} has ended", "start another run"
            )
        if self._lost is not None:
            raise refusal_for(self._lost)
        if index > self.opened:
            raise CallRefusedError(
                common_pb2.REFUSAL_TOO_EARLY, f"round {index} comes after {self.opened}", "open rounds in order"
            )
        current = self._round(index)
        current.ask(request.query_digest, request.length, request.expected)
        if self._attempt is None or self._attempted != index:
            current.start()
            self._attempted = index
            self._attempt = asyncio.create_task(self._try(current, fixed))
            self._attempt.add_done_callback(lambda done: done.cancelled() or done.exception())
        if current.decide():
            self._changed()
        attempt = self._attempt
        await asyncio.wait([attempt], timeout=bounded_wait(request.wait_seconds))
        if not attempt.done():
            return wire.OpenResponse(state=wire.OpenResponse.STATE_WAITING, missing=self._blamed(current))
        if self._attempt is attempt:
            self._attempt = None
        try:
            return self._response(index, attempt.result(), request)
        except ShortError as short:
            return wire.OpenResponse(state=wire.OpenResponse.STATE_SHORT, missing=short.missing)
        except asyncio.CancelledError:
            raise CallWaitsError("this server is stopping", "ask again") from None
        except MpcError as error:
            raise refusal_for(error) from error

    def _checked(self, request: wire.OpenRequest) -> Request:
        manifest = self.manifest
        if len(request.expected) > len(manifest.parties):
            raise malformed(
                f"{len(request.expected)} parties are expected", f"the manifest has {len(manifest.parties)}"
            )
        expected = set(request.expected)
        if request.round >= manifest.releases:
            raise malformed(f"round {request.round}", f"the run has {manifest.releases} rounds, from 0")
        if len(request.query_digest) != DIGEST_BYTES:
            raise malformed("query_digest is not a SHA-256", "send 32 bytes")
        if not 1 <= request.length <= manifest.longest_answer:
            raise malformed(
                f"length {request.length}", f"the manifest's noise is for 1 to {manifest.longest_answer} numbers"
            )
        if len(expected) != len(request.expected) or not expected <= set(manifest.parties):
            raise malformed("expected names others than the manifest's parties", "name each party once")
        if len(expected) < manifest.minimum_parties:
            raise CallRefusedError(
                common_pb2.REFUSAL_POLICY,
                f"{len(expected)} parties are expected and the manifest asks for {manifest.minimum_parties}",
                "expect at least as many",
            )
        return self._fixed(request.round, request.length, request.query_digest)

    def _result(self, index: int, fixed: Request) -> Result:
        """What was opened, for whoever asks with the same words."""
        try:
            stored = self._store.get(fixed)
        except MpcError as error:
            raise refusal_for(error) from None
        if stored is None or stored.phase is not Phase.committed:
            raise refusal_for(RoundLostError(f"round {index} of run {self.manifest.run} is not in this server's store"))
        if self._latest is not None and self._latest[0] == index:
            return self._latest[1]
        return Result(stored.opened)

    def _response(self, index: int, result: Result, request: wire.OpenRequest) -> wire.OpenResponse:
        statement = common_pb2.SignedWord.FromString(result.opened.statement)
        there = set(result.opened.contributors)
        return wire.OpenResponse(
            state=wire.OpenResponse.STATE_OPENED,
            contributors=result.opened.contributors,
            missing=[party for party in request.expected if party not in there],
            share=result.opened.share[:PIECE_BYTES],
            size=len(result.opened.share),
            opening=result.opened.opening,
            waited_seconds=result.waited,
            agreed_seconds=result.agreed,
            noised_seconds=result.noised,
            statement=statement,
        )

    def share(self, index: int, offset: int) -> bytes:
        """A piece of an opened share."""
        if self._latest is not None and self._latest[0] == index:
            share = self._latest[1].opened.share
        else:
            stored = self._store.find(self.manifest.run, index)
            if stored is None or stored.phase is not Phase.committed:
                raise CallRefusedError(
                    common_pb2.REFUSAL_TOO_EARLY, f"round {index} is not opened", "call Open until it is"
                )
            try:
                stored.require_share(index)
            except RefusedError as error:
                raise refusal_for(error) from None
            share = stored.opened.share
        if offset >= len(share):
            raise malformed(f"offset {offset}", f"the share has {len(share)} bytes")
        return share[offset : offset + PIECE_BYTES]

    async def _try(self, current: Round, fixed: Request) -> Result:
        """Wait for contributions, then for the other server; until it is opened, or cannot be."""
        self._failure = None
        if self._server.dial is None:
            return await self._follow(current)
        backoff = Backoff(*BACKOFF_SECONDS)
        while True:
            self._require_open()
            try:
                if not self._settled:
                    await self._settle()
                if self.opened > current.index:
                    return self._kept(current.index)
                await self._until_ready(current)
                return await self._lead(current, fixed)
            except PeerShortError:
                raise ShortError(current.missing()) from None
            except (RoundLostError, RolledBackError, PeerLostError) as error:
                self._lost = error
                raise
            except (PeerError, SessionClosedError) as error:
                self._settled = False
                if time.monotonic() > current.deadline + self._grace:
                    raise CallWaitsError(f"the sum cannot be opened now ({error})", "check the other server") from None
                await asyncio.sleep(backoff.next_seconds())

    async def _until_ready(self, current: Round) -> None:
        while not current.decide():
            self._require_open()
            missing = current.missing()
            relied = self._blamed(current) != missing
            left = current.deadline + (self._grace if relied else 0.0) - time.monotonic()
            if left <= 0 and relied:  # whether the round is short, only A can know, and says
                raise CallWaitsError("the other server does not come with what it has", "check it, then ask again")
            if left <= 0:
                raise ShortError(missing)
            await self._wait_for_change(left)
        if self._server.dial is None:
            self._changed()

    async def _lead(self, current: Round, fixed: Request) -> Result:
        """Server A's part."""
        ready, dial = time.monotonic(), self._server.dial
        assert dial is not None
        async with self._turn:
            self._require_open()
            # B may have begun to wait much later, after a restart.
            patience = self.manifest.deadline_seconds + self._grace

            def connect() -> Conversation:
                return dial(self.manifest.digest, current.index, False, patience, current.sealed())

            return await self._converse(current, fixed, connect, ready)

    # ------------------------------------------------------------ server B

    async def _follow(self, current: Round) -> Result:
        """Server B waits for its contributions, and then for A to come."""
        if self._unsettled() is None:
            await self._until_ready(current)
        until = max(current.deadline, time.monotonic()) + self._grace
        while self.opened <= current.index:
            self._require_open()
            if self._failure is not None:
                raise self._failure
            if (left := until - time.monotonic()) <= 0:
                raise CallWaitsError("the other server does not come to open the sum", "check it, then ask again")
            await self._wait_for_change(left)
        return self._kept(current.index)

    async def serve(self, link: AnsweringLink, index: int, settling: bool, halves: Halves, gone: asyncio.Event) -> None:
        """One conversation with server A."""
        self._stream += 1
        mine = self._stream
        self._changed()
        until = time.monotonic() + self.manifest.deadline_seconds + self._grace
        if not settling:
            if index == self.opened and self.openings is None and not self._ending:
                await self._take(index, halves)
            while not self._may_answer(index):
                attempt = self._attempt
                if self._stream != mine or gone.is_set():
                    return link.decline(UNREADY, "another stream has taken its place")
                if attempt is not None and _ended_short(attempt):
                    return link.decline(SHORT, "too few have contributed")
                if self.openings is not None or self._ending or time.monotonic() > until or index != self.opened:
                    return link.decline(UNREADY, f"round {index} is not asked for here")
                await self._wait_for_change(min(until - time.monotonic(), 1.0) + 0.001)
        async with self._turn:
            try:
                await self._answer(link, index, settling)
            except (RoundLostError, RolledBackError) as error:
                self._failure = self._lost = error
                link.decline(LOST, str(error))
            except ShortError as short:
                self._failure = short
                link.decline(SHORT, str(short))
            except RefusedError as error:
                self._failure = error
                link.decline(UNREADY, str(error))
            except MpcError as error:
                link.decline(UNREADY, str(error))
            finally:
                self._changed()

    def _may_answer(self, index: int) -> bool:
        current = self._rounds.get(index)
        return index < self.opened or (
            index == self.opened and self.openings is None and not self._ending and bool(current and current.ready)
        )

    async def _answer(self, link: AnsweringLink, index: int, settling: bool) -> None:
        channel = link.channel()
        if settling:
            await self._settle_over(lambda: channel, index)
            return
        current = self._rounds.get(index)
        if current is None:
            stored = self._store.find(self.manifest.run, index)
            if stored is None:
                raise PeerError(f"round {index} is not asked for here")
            current = Round(self.manifest, index)
            current.ask(stored.query, stored.length, ())
        assert current.query is not None
        fixed = self._fixed(index, current.length, current.query)
        await self._converse(current, fixed, lambda: channel, time.monotonic())

    # ------------------------------------------------------------ the end

    async def end(self) -> int:
        """No sum of this run is opened any more; how many were."""
        if self.openings is not None:
            return self.openings
        self._ending = True
        self._changed()
        if (waiting := self._waiting) is not None:
            waiting.close("the run is ending")
        try:
            await self._settle_for_end()
            async with self._turn:
                self.openings = self._store.end(self.manifest.run)
                self._note("run.ended", openings=self.openings)
        finally:
            self._ending = False
            self._changed()
        self._forget()
        return self.openings

    async def _settle_for_end(self) -> None:
        """Both servers must count alike; what is lost for good does not keep a run from its end."""
        until = time.monotonic() + FRAME_SECONDS / 2
        try:
            if self._server.dial is not None and self._lost is None:
                await self._settle()
                if self._ahead():
                    await self._settle()
                if self._ahead():
                    raise PeerError("the other server has not committed yet")
            while self._unsettled() is not None and time.monotonic() < until and self._lost is None:
                await self._wait_for_change(until - time.monotonic())
            if self._lost is not None:
                raise self._lost
        except (RoundLostError, RolledBackError, PeerLostError):
            async with self._turn:
                if self._unsettled() is not None:
                    self._store.discard(self.manifest.run, self.opened)
        except MpcError as error:
            raise CallWaitsError(
                f"the last opening is not settled with the other server ({error})", "ask both to end, again"
            ) from None
        if self._unsettled() is not None:
            raise CallWaitsError("the last opening is not settled with the other server", "ask both to end, again")

    def close(self) -> None:
        """Stop what runs, and forget shares."""
        if self._check_timer is not None:
            self._check_timer.cancel()
        for task in [*self._checks, *([self._attempt] if self._attempt else [])]:
            task.cancel()
        if not self._turn.locked():  # a worker may be adding these shares up: the process's end forgets them
            self._forget()

    def _forget(self) -> None:
        for current in self._rounds.values():
            current.erase()
        self._rounds.clear()
        self.keys.clear()


def _ended_short(attempt: asyncio.Task[Result]) -> bool:
    return attempt.done() and not attempt.cancelled() and isinstance(attempt.exception(), ShortError)
