"""What happens to a run from its submission to its end; every step is durable before the next, and may be repeated.

    verifying -> gathering -> running -> ending -> finished        stalled, stopped: until somebody resumes
                                                                   failed, refused: for good
A crash at any point comes back here with the state on disk. Opening a round again gives the same bytes, a checkpoint
holds everything an algorithm knows, and the ledger takes the same release twice.
"""

import asyncio
import contextlib
import hashlib
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from parley.algorithms.early_stop import evaluated_at
from parley.algorithms.errors import AlgorithmError
from parley.coordinator.attendance import say_who_is_missing
from parley.coordinator.caught import NO_WATCH, Watch
from parley.coordinator.controls import Controls, Opener, Opening, ShortError, StalledError, Wanted
from parley.coordinator.errors import CoordinatorError, RunFailedError, SaysCaughtError
from parley.coordinator.made import made_of
from parley.coordinator.questions import Prepared, Question, signed_words
from parley.coordinator.run import Run
from parley.coordinator.store import RoundRecord, RunStore, State, pack, unpack
from parley.federation.errors import EvidenceFileError, FederationError, TrailError
from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.mpc import crash
from parley.node import bell
from parley.node.refusals import words
from parley.privacy.errors import PrivacyError
from parley.v1 import aggregator_pb2, common_pb2, coordinator_pb2

ATTEMPTS = 3
"""Deadlines that a round may miss before the run stalls."""
PROPOSE_SECONDS = 0.5
"""Between two proposals to a server that has not decided yet."""
RINGS = {State.stalled: bell.STALLED, State.refused: bell.REFUSED}
"""What a person has to look at."""
STORAGE_ERRORS = (sqlite3.Error, OSError, TrailError)
ROOM_SECONDS = 0.5
"""Between two looks at a disk that is full."""


class Books(Protocol):
    """The coordinator's own admission, ledger and results; the process keeps them, in this node's folder."""

    async def admit(self, manifest: Manifest) -> dict[str, Any]:
        """Verify, admit by policy or by hand, charge the ledger; the claim, or an error that names the rule."""
        ...

    def record(self, manifest: Manifest, round_index: int, digest: str) -> None:
        """Note one release, durably; called in the worker thread."""
        ...

    async def close(self, manifest: Manifest, ends: list[common_pb2.SignedEnd]) -> None:
        """The run is over: settle the ledger, write the model if there is one."""
        ...


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What the driver works with."""

    store: RunStore
    books: Books
    worker: Executor
    """One thread: arithmetic and SQLite, off the event loop and in order."""
    prepare: Callable[[Manifest], Prepared]
    controls: Callable[[Manifest], Controls]
    opener: Callable[[Controls], Opener]
    note: Callable[..., str]
    """The log and the audit trail: an event and public fields; its id comes back."""
    watch: Watch = NO_WATCH
    """For evidence against a server."""
    full: Callable[[], bool] = lambda: False
    """Whether this node's disk is."""


class Driver:
    """Drives one run."""

    def __init__(self, run: Run, tools: Tools, gather_seconds: float) -> None:
        self.run, self.tools, self._gather_seconds = run, tools, gather_seconds
        self.manifest = run.manifest
        self._prepared: Prepared | None = None
        self._attempts = 0

    async def drive(self) -> None:
        """Until the run rests. Never raises: how it ended is in the run's state."""
        self._controls = self.tools.controls(self.manifest)
        try:
            await self._to_its_rest()
        except Exception as error:
            await self._interrupted(error)
        finally:
            if self._prepared is not None:
                await self._work(self._prepared.close)
            await self._controls.close()

    async def _to_its_rest(self) -> None:
        steps = {
            State.verifying: self._verify,
            State.gathering: self._gather,
            State.running: self._rounds,
            State.ending: self._end,
        }
        try:
            while not self.run.state.resting:
                await self._with_room(steps[self.run.state])
        except StalledError as error:
            await self._move(State.stalled, f"{error}; parley resume {self.manifest.run} goes on from there")
        except (TrailError, EvidenceFileError):
            raise  # of this node's disk: a person can go on
        except SaysCaughtError as error:
            await self._caught(str(error))
        except (CoordinatorError, AlgorithmError, FederationError, PrivacyError) as error:
            await self._fail(str(error))

    async def _interrupted(self, error: Exception) -> None:
        """The last resort of a task that nobody awaits, such as for a failing disk: all is durable, a person can go on.

        Without it the run would be called running for ever, and nothing would drive it.
        """
        with contextlib.suppress(TrailError):  # it may be the trail that fails: the outcome says so
            self.tools.note("run.interrupted", run=self.manifest.run, error=error)
        what = f"interrupted by {type(error).__name__}, see the coordinator's log"
        await self._move(State.stalled, f"{what}; parley resume {self.manifest.run} goes on from there")

    async def end_early(self, outcome: str) -> None:
        """By the operator's word, for good: both aggregators sign how many sums they opened."""
        self._controls = self.tools.controls(self.manifest)
        try:
            await self._move(State.ending, outcome)  # a coordinator that dies now goes on with the end
            await self._with_room(self._end)
        finally:
            await self._controls.close()

    async def _with_room(self, step: Callable[[], Awaitable[None]]) -> None:
        """A step, taken again once there is room where this node's disk was full: everything else is durable.

        The disk may have been freed since it failed a write, so that such an error is given one more try.
        """
        tries = 1
        while True:
            try:
                return await step()
            except Exception as error:
                if not self.tools.full():
                    if not (tries and isinstance(error, STORAGE_ERRORS)):
                        raise
                    tries -= 1
                await asyncio.sleep(ROOM_SECONDS)
                while self.tools.full():
                    await asyncio.sleep(ROOM_SECONDS)

    async def _move(self, state: State, outcome: str = "") -> None:
        async def move() -> None:
            await self._work(self.tools.store.set_state, self.manifest.digest, state, outcome)
            crash.point(f"coordinator.{state}")
            self._note("run." + state)
            if state in RINGS:
                bell.ring(RINGS[state], self.manifest.run, self.manifest.digest.hex())

        await self._with_room(move)
        await self.run.move(state, outcome)

    def _note(self, event: str, **facts: Any) -> None:
        """With what the aggregators have mentioned; the next call to them mentions it."""
        heard = self._controls.heard()
        self._controls.mention(self.tools.note(event, run=self.manifest.run, peer_events=heard, **facts))

    async def _fail(self, outcome: str) -> None:
        """For good: the aggregators are told to open no more, if they can be reached.

        While it is gathered, too: whoever has charged a ledger for it gets back what was not spent by their two words.
        """
        if self.run.state is not State.verifying or await self._work(self.tools.store.answers, self.manifest.digest):
            await self._settle()
            outcome = self._with_name(outcome)
        await self._move(State.refused if self.run.state is State.verifying else State.failed, outcome)

    async def _caught(self, said: str) -> None:
        """By this coordinator's own verdict on what the servers have, or by what one of them says."""
        await self.tools.watch.look(self._controls)
        against = self.tools.watch.against(self.manifest)
        await self._fail(str(against[-1]) if against else f"{said}; it hands over no evidence that holds")

    def _with_name(self, outcome: str) -> str:
        """A sum that is none may be its doing whom the other server has just caught: whoever reads it has to know."""
        against = self.tools.watch.against(self.manifest) if self.manifest.noise.parts.joint else ()
        return f"{against[-1]}; {outcome}" if against and str(against[-1]) not in outcome else outcome

    def _require_followed(self) -> None:
        """No sum is asked for whose noise a server has a hand in that is known not to follow the protocol."""
        if self.manifest.noise.parts.joint and (against := self.tools.watch.against(self.manifest)):
            raise SaysCaughtError(str(against[-1]))

    async def _settle(self) -> None:
        """Both aggregators' words on the end, and this coordinator's ledger by them; or a note why not."""
        try:
            await self._collect_ends(patience_seconds=self.manifest.deadline_seconds)
            await self.tools.watch.look(self._controls)
            await self.tools.books.close(self.manifest, self.run.ends)
            crash.point("coordinator.settled")
        except (CoordinatorError, AlgorithmError, FederationError, PrivacyError) as error:
            self.tools.note("run.end_not_signed", run=self.manifest.run, error=error)

    async def settle_late(self) -> None:
        """Of a run that is over and whose end nobody has signed yet: ask the aggregators again. Never raises."""
        self._controls = self.tools.controls(self.manifest)
        try:
            await self._settle()
        except Exception as error:  # of a task that nobody awaits: the next start tries again
            with contextlib.suppress(TrailError):
                self.tools.note("run.end_not_signed", run=self.manifest.run, error=error)
        finally:
            await self._controls.close()
        await self.run.tell()

    async def _work(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.tools.worker, function, *arguments)

    # ------------------------------------------------------------ before the first round

    async def _verify(self) -> None:
        await self.tools.watch.look(self._controls)
        claim = await self.tools.books.admit(self.manifest)
        crash.point("coordinator.charged")
        await self._work(self.tools.store.set_claim, self.manifest.digest, claim)
        await self._move(State.gathering)

    async def _gather(self) -> None:
        """Both aggregators admit it; every party has answered, or time is up and enough have."""
        self.run.gathering_until = time.time() + self._gather_seconds
        saying = asyncio.ensure_future(say_who_is_missing(self.run))
        try:
            await self._gathered(time.monotonic() + self._gather_seconds)
        finally:
            saying.cancel()
            self.run.gathering_until = 0.0

    async def _gathered(self, until: float) -> None:
        await asyncio.gather(*(self._propose(server, until) for server in self._controls.servers))
        parties, least = set(self.manifest.parties), self.manifest.minimum_parties
        run = self.run
        async with run.changed:
            while run.joined | run.refused.keys() != parties and time.monotonic() < until:
                if run.state is not State.gathering:
                    return
                try:
                    await asyncio.wait_for(run.changed.wait(), max(0.05, min(1.0, until - time.monotonic())))
                except TimeoutError:
                    continue
        if len(run.joined) < least:
            why = [f"{party} refused ({reason})" for party, reason in sorted(run.refused.items())]
            silent = sorted(parties - run.joined - run.refused.keys())
            why += [f"{party} did not answer" for party in silent]
            message = f"{len(run.joined)} of at least {least} parties take part: {'; '.join(why)}"
            raise StalledError(message) if silent else RunFailedError(message)
        await self._move(State.running)

    async def _propose(self, server: Any, until: float) -> None:
        request = aggregator_pb2.ProposeRequest(manifest=self.manifest.canonical)
        while True:
            answer = await server.call("Propose", request, self._gather_seconds)
            reasons = words("; ".join(answer.reasons))
            word = "joined" if answer.admitted else ("pending" if answer.pending else "refused")
            await self._work(self.tools.store.answer, self.manifest.digest, server.peer.uri, word, reasons)
            if answer.admitted:
                self.run.admitted.add(server.peer.uri)
                await self._work(
                    self.tools.store.put_admission,
                    self.manifest.digest,
                    server.peer.uri,
                    answer.admission.SerializeToString(),
                )
                self.run.admissions = [
                    *(word for word in self.run.admissions if word.aggregator != answer.admission.aggregator),
                    answer.admission,
                ]
                return
            if not answer.pending:
                raise RunFailedError(f"aggregator {server.peer.name} does not take part: {reasons}")
            if time.monotonic() > until:
                raise StalledError(f"aggregator {server.peer.name} has not decided: {reasons or 'still verifying'}")
            await asyncio.sleep(PROPOSE_SECONDS)

    # ------------------------------------------------------------ rounds

    async def _rounds(self) -> None:
        question = await self._work(self._begin)
        self._opener = self.tools.opener(self._controls)
        while self.run.state is State.running and question is not None:
            self._require_followed()
            await self.run.publish(question)
            question = await self._round(question)

    def _begin(self) -> Question | None:
        """The first question, or the one that waited when this process ended."""
        prepared = self._prepared = self.tools.prepare(self.manifest)
        stored = self.tools.store.question(self.manifest.digest)
        if stored is not None:
            _, question, points, checkpoint = stored
            prepared.restore(unpack(checkpoint))
            statements = self.tools.store.statements(self.manifest.digest)
            return Question(coordinator_pb2.Round.FromString(question), points, signed_words(statements))
        if self.manifest.start is not None:
            self.tools.note("run.warm_start", run=self.manifest.run, digest=self.manifest.start.digest)
        mechanism = self.manifest.mechanism
        last = mechanism.releases - 1
        noise = self.manifest.released_deviation(last) / mechanism.expected_batch(last)
        from parley.privacy.randomness import SystemRandomness

        prepared.algorithm.begin(prepared.plan, prepared.theta, noise, SystemRandomness())
        return self._ask(0, None)

    def _ask(self, index: int, record: RoundRecord | None, statements: Sequence[bytes] = ()) -> Question:
        """The question of a round, on disk before anybody is asked."""
        assert self._prepared is not None
        ask = self._prepared.algorithm.ask(index)
        question = Question.of(self.manifest.digest, index, ask, self._prepared.length(ask), statements)
        self.tools.store.advance(
            self.manifest.digest,
            index,
            question.round.SerializeToString(),
            question.points,
            pack(self._prepared.checkpoint()),
            record,
            statements,
        )
        crash.point("coordinator.asked")
        return question

    async def _round(self, question: Question) -> Question | None:
        started = time.monotonic()
        index = question.round.index
        wanted = Wanted(
            digest=self.manifest.digest,
            round=index,
            query=question.round.query_digest,
            length=question.round.length,
            lattice=self.manifest.lattice(index),
            expected=self.run.expected,
            missing=self._missing,
            patience_seconds=2 * self.manifest.deadline_seconds + 60,
        )
        try:
            opening = await self._opener.open(wanted)
        except ShortError as error:
            self._attempts += 1
            self.tools.note("round.short", run=self.manifest.run, round=index, missing=list(error.missing))
            if self._attempts >= ATTEMPTS:
                raise
            self.run.absent.clear()
            return question
        self._attempts = 0
        crash.point("coordinator.opened")
        self.run.note_opened(opening.contributors)
        following: Question | None = await self._work(self._step, question, opening, started)
        self._note("round.opened", round=index, seconds=time.monotonic() - started, contributors=opening.contributors)
        if following is None:
            await self.run.move(State.ending)
        return following

    def _missing(self, place: int, parties: Any) -> None:
        self._require_followed()
        if self.run.note_missing(place, parties):
            task = asyncio.ensure_future(self.run.tell())
            task.add_done_callback(lambda done: done.exception())

    def _step(self, question: Question, opening: Opening, started: float) -> Question | None:
        """Decode, step the algorithm, note the release, write the next question: in the worker thread."""
        begun = time.monotonic()
        prepared, mechanism, index = self._prepared, self.manifest.mechanism, question.round.index
        assert prepared is not None
        present = frozenset(opening.contributors)
        if not self.manifest.minimum_parties <= len(present) or not present <= set(self.manifest.parties):
            raise RunFailedError(f"round {index} was opened over {len(present)} parties, which the run does not allow")
        batch, lattice = mechanism.expected_batch(index, present), self.manifest.lattice(index)
        bound = mechanism.clip.contribution_bound(index)
        if np.abs(opening.total).max() > lattice.largest_sum(self.manifest.most_contributions(index), bound):
            self.tools.note("round.out_of_range", run=self.manifest.run, round=index, contributors=opening.contributors)
            raise RunFailedError(out_of_range(index, len(present)))
        estimate = lattice.decode(opening.total) / batch
        release = hashlib.sha256(opening.total.astype("<i8").tobytes()).hexdigest()
        self.tools.books.record(self.manifest, index, release)
        crash.point("coordinator.recorded")
        prepared.algorithm.tell(index, estimate)
        model = prepared.algorithm.result()
        evaluation = prepared.evaluate(model) if evaluated_at(index, mechanism.releases) else {}
        last = index + 1 == mechanism.releases
        stopper = prepared.stopper
        if stopper is not None and evaluation:
            last = stopper.tell(index, model, evaluation["loss"]) or last
        now = time.monotonic()
        record = RoundRecord(
            round=index,
            at=time.time(),
            seconds=now - started,
            waited_seconds=opening.waited_seconds,
            agreed_seconds=opening.agreed_seconds,
            noised_seconds=opening.noised_seconds,
            stepped_seconds=now - begun,
            contributors=list(opening.contributors),
            missing=sorted(self.run.joined - present),
            estimator_norm=float(np.linalg.norm(estimate)),
            noise_norm=float(np.sqrt(len(estimate)) * self.manifest.released_deviation(index) / batch),
            bytes_down=self.run.bytes_down,
            bytes_up=len(present) * (8 * question.round.length + 96),
            evaluation=evaluation,
        )
        chosen = index
        if last and stopper is not None and stopper.best is not None:
            model, chosen = stopper.best, stopper.best_round
        if evaluation and (examples := prepared.examples(model)):
            self.tools.store.put_examples(self.manifest.digest, chosen, [each.as_json() for each in examples])
        if not last:
            return self._ask(index + 1, record, opening.statements)
        if remark := prepared.algorithm.remark:
            self.tools.note("run.remark", run=self.manifest.run, says=remark)
        self.tools.store.finish(self.manifest.digest, model, prepared.measure(model), record, opening.statements)
        crash.point("coordinator.result")
        return None

    # ------------------------------------------------------------ the end

    async def _end(self) -> None:
        """After the last round; or before, where the operator has said so: then there is an outcome already."""
        early = self.run.outcome
        made = await self._work(made_of, self.tools.store, self.manifest)
        if not early and made.early:
            self._note("run.stopped_early", round=made.rounds - 1, rounds=made.planned)
        await self._collect_ends(patience_seconds=2 * self.manifest.deadline_seconds + 60)
        await self.tools.watch.look(self._controls)
        await self.tools.books.close(self.manifest, self.run.ends)
        crash.point("coordinator.settled")
        await self._move(State.failed if early else State.finished, early or str(made))

    async def _collect_ends(self, patience_seconds: float) -> None:
        # A server that has not admitted it says that it never will, once it knows who leads it.
        unknown = b"" if len(self.run.admissions) >= len(self._controls.servers) else self.manifest.canonical
        request = aggregator_pb2.EndRequest(manifest_digest=self.manifest.digest, manifest=unknown)
        answers = await asyncio.gather(
            *(server.call("End", request, patience_seconds) for server in self._controls.servers)
        )
        for answer in answers:
            word = answer.end.SerializeToString()
            await self._work(self.tools.store.put_end, self.manifest.digest, answer.end.aggregator, word)
        self.run.ends = [answer.end for answer in answers]
        crash.point("coordinator.ended")


def out_of_range(index: int, answered: int) -> str:
    """Whoever reads it has to know whom to ask: no sum tells whose words were in it."""
    return (
        f"round {index}'s sum is out of range: one of the {answered} parties that answered did not send what was "
        "asked, or an aggregator did not add it up. Nothing that was opened tells which, and what was charged stays "
        "charged: the trail names those that answered, ask all of them"
    )


def restored(manifest: Manifest, store: RunStore) -> Run:
    """A run as the disk has it."""
    row = store.get(manifest.digest)
    assert row is not None
    uris = {name.uri: name.name for name in manifest.identities(Role.party)}
    run = Run(manifest, row.state, row.outcome)
    for node, (answer, reason) in store.answers(manifest.digest).items():
        if node in uris and answer == "joined":
            run.joined.add(uris[node])
        elif node in uris and answer == "refused":
            run.refused[uris[node]] = reason
    words = store.admissions(manifest.digest).values()
    run.admissions = [common_pb2.SignedAdmission.FromString(word) for word in words]
    run.ends = [common_pb2.SignedEnd.FromString(word) for word in store.ends(manifest.digest).values()]
    return run
