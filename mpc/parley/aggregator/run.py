"""One run on one aggregation server: rounds in order, each opened once, then the end.

Uploads, what the coordinator asks for, and what server A asks of B; conversations are in `state`.
"""

import asyncio
import contextlib
import time

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
from parley.aggregator.request import Request
from parley.aggregator.rounds import Result, Round, ShortError, refusal_for
from parley.aggregator.state import RunState
from parley.aggregator.terms import CallRefusedError, CallWaitsError, bounded_wait, malformed
from parley.aggregator.uploads import Upload, check_form
from parley.mpc.errors import MpcError, PeerError, SessionClosedError
from parley.node.relay import KEY_SECONDS
from parley.v1 import aggregator_pb2 as wire
from parley.v1 import common_pb2

Rejection = wire.UploadResponse.Rejection
BACKOFF_SECONDS = (0.05, 2.0)


class Run(RunState):
    """The state machine."""

    # ------------------------------------------------------------ uploads

    async def upload(self, party: str, request: wire.UploadRequest) -> wire.UploadResponse:
        """A piece of a party's half; a receipt with the last one."""
        answer = await self._piece(party, request)
        current = self._rounds.get(request.round)
        upload = current.uploads.get(party) if answer.complete and current else None
        if upload is not None and upload.in_time:
            upload.receipt = upload.receipt or self._receipt(request.round, upload.query, upload.digest)
            answer.receipt.ParseFromString(upload.receipt)
        return answer

    async def _piece(self, party: str, request: wire.UploadRequest) -> wire.UploadResponse:
        check_form(request, self.terms.role)
        index = request.round
        if self.openings is not None or self._ending or index < self.opened or index >= self.terms.releases:
            return wire.UploadResponse(rejection=Rejection.REJECTION_TOO_LATE)
        if index > self.opened + 1:
            return wire.UploadResponse(rejection=Rejection.REJECTION_TOO_EARLY)
        current = self._round(index)
        if current.query is not None:
            if current.query != request.query_digest:
                return wire.UploadResponse(rejection=Rejection.REJECTION_OTHER_QUERY)
            if request.size != (due := self.terms.payload_bytes(current.length)):
                raise malformed(f"a payload of {request.size} bytes", f"round {index} takes {due}")
        upload = current.uploads.get(party)
        if upload is None:
            upload = current.uploads[party] = Upload(self.terms, party, request, self._tools.memory)
        answer = await upload.add(request)
        if answer.complete:
            fixed = current.taken or (self._prepared and index == self.opened)
            upload.in_time = upload.in_time or not fixed
            if request.relay_key:
                self.keys.hold(party, index, request.relay_key)
                loop = asyncio.get_running_loop()
                loop.call_later(KEY_SECONDS + 1, lambda: self.keys.forget_before(self.opened))
            if current.decide():
                self._changed()
        return answer

    async def _take(self, index: int, halves: Halves) -> None:
        """On server B: what A passes on. What does not open, or is refused, is missing."""
        current = self._round(index)
        for half in halves[: len(self.terms.parties)]:
            if current.has(half.party) or not self.keys.holds(half.party):
                continue
            words = (half.query_digest, half.commitment_a, half.commitment_b)
            digest = self.terms.upload_digest(index, half.party, *words)
            payload = self.keys.open(half.party, index, digest, half.sealed)
            if payload is None:
                continue
            request = wire.UploadRequest(
                manifest_digest=self.terms.digest,
                round=index,
                query_digest=half.query_digest,
                commitment_a=half.commitment_a,
                commitment_b=half.commitment_b,
                size=len(payload),
                data=payload,
            )
            with contextlib.suppress(CallRefusedError):
                await self._piece(half.party, request)
        current.relayed = True
        self._changed()

    def _blamed(self, current: Round) -> list[str]:
        """Whom to call missing: not those whose halves A may still pass on."""
        return [party for party in current.missing() if current.relayed or not self.keys.holds(party)]

    def _round(self, index: int) -> Round:
        return self._rounds.setdefault(index, Round(self.terms, index))

    # ------------------------------------------------------------ opening

    async def open(self, request: wire.OpenRequest) -> wire.OpenResponse:
        """Start, go on with or look at the opening of one round."""
        terms, index = self.terms, request.round
        fixed = self._request(request)
        if index < self.opened:
            return self._response(index, self._result(index, fixed), request)
        if self.openings is not None or self._ending:
            raise CallRefusedError(common_pb2.REFUSAL_TOO_LATE, f"run {terms.name} has ended", "start another run")
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

    def _request(self, request: wire.OpenRequest) -> Request:
        terms = self.terms
        if len(request.expected) > len(terms.parties):
            raise malformed(f"{len(request.expected)} parties are expected", f"the manifest has {len(terms.parties)}")
        expected = set(request.expected)
        if request.round >= terms.releases:
            raise malformed(f"round {request.round}", f"the run has {terms.releases} rounds, from 0")
        if len(request.query_digest) != 32:
            raise malformed("query_digest is no SHA-256", "send 32 bytes")
        if not 1 <= request.length <= terms.dimension:
            raise malformed(f"length {request.length}", f"the manifest's noise is for 1 to {terms.dimension} numbers")
        if len(expected) != len(request.expected) or not expected <= set(terms.parties.values()):
            raise malformed("expected names others than the manifest's parties", "name each party once")
        if len(expected) < terms.minimum_parties:
            raise CallRefusedError(
                common_pb2.REFUSAL_POLICY,
                f"{len(expected)} parties are expected and the manifest asks for {terms.minimum_parties}",
                "expect at least as many",
            )
        return terms.request(request.round, request.length, request.query_digest)

    def _result(self, index: int, fixed: Request) -> Result:
        """What was opened, for whoever asks with the same words."""
        try:
            stored = self._tools.store.get(fixed)
        except MpcError as error:
            raise refusal_for(error) from None
        if stored is None or stored.phase is not Phase.committed:
            raise refusal_for(RoundLostError(f"round {index} of run {self.terms.name} is not in this server's store"))
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
            share=result.opened.share[: 1 << 20],
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
            stored = self._tools.store.find(self.terms.name, index)
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
        return share[offset : offset + (1 << 20)]

    async def _try(self, current: Round, fixed: Request) -> Result:
        """Wait for contributions, then for the other server; until it is opened, or cannot be."""
        self._failure = None
        if self._tools.dial is None:
            return await self._follow(current)
        pause = BACKOFF_SECONDS[0]
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
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACKOFF_SECONDS[1])

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
        if self._tools.dial is None:
            self._changed()

    async def _lead(self, current: Round, fixed: Request) -> Result:
        """Server A's part."""
        ready, dial = time.monotonic(), self._tools.dial
        assert dial is not None
        async with self._turn:
            self._require_open()
            patience = self.terms.deadline_seconds + self._grace  # B may have begun to wait much later, after a restart

            def connect() -> Conversation:
                return dial(self.terms.digest, current.index, False, patience, current.sealed())

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
        until = time.monotonic() + self.terms.deadline_seconds + self._grace
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
            stored = self._tools.store.find(self.terms.name, index)
            if stored is None:
                raise PeerError(f"round {index} is not asked for here")
            current = Round(self.terms, index)
            current.ask(stored.query, stored.length, ())
        assert current.query is not None
        fixed = self.terms.request(index, current.length, current.query)
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
                self.openings = self._tools.store.end(self.terms.name)
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
            if self._tools.dial is not None and self._lost is None:
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
                    self._tools.store.discard(self.terms.name, self.opened)
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
