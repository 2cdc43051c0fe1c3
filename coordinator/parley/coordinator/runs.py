"""All runs of this coordinator: taken up again at start-up, submitted, stopped, resumed. Lives on the event loop."""

import asyncio
from typing import Any

from parley.coordinator.driver import Driver, Tools, restored
from parley.coordinator.errors import CoordinatorError, StateError
from parley.coordinator.run import BOTH, Run
from parley.coordinator.store import State
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.mpc import crash
from parley.node import bell
from parley.node.refusals import RefusedCallError
from parley.v1 import common_pb2

GATHER_SECONDS = 24 * 3600.0
"""For people to approve a run by hand."""
MOST_DECISIONS = 32
"""Of one party on one run: each is written to disk and to the audit trail."""


class Runs:
    """The runs, and a task for each that is under way."""

    def __init__(self, tools: Tools, gather_seconds: float = GATHER_SECONDS) -> None:
        self._tools, self._gather_seconds = tools, gather_seconds
        self.all: dict[bytes, Run] = {}
        self.changed = asyncio.Condition()
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._stopping: set[asyncio.Task[State]] = set()

    def take_up(self) -> None:
        """Go on with whatever was under way when this process last ended."""
        for row in self._tools.store.runs():
            run = restored(Manifest.from_canonical(row.manifest), self._tools.store)
            self.all[row.digest] = run
            if not run.state.resting:
                self._drive(run)
            elif self._owed(run):
                self._settle(run)

    async def submit(self, canonical: bytes) -> bytes:
        """Durable before it returns."""
        manifest = await asyncio.to_thread(Manifest.from_canonical, canonical)
        await self._work(self._tools.store.submit, manifest.digest, manifest.run, manifest.canonical)
        crash.point("coordinator.submitted")
        run = self.all.get(manifest.digest)
        if run is None:
            run = self.all[manifest.digest] = Run(manifest, State.verifying)
            self._tools.note("run.submitted", run=manifest.run, manifest=manifest.digest.hex())
            self._drive(run)
        elif run.state is State.refused and not await self._work(self._tools.store.answers, manifest.digest):
            # By this coordinator alone, and nobody else has heard of it: a policy may have been mended since.
            self._tools.note("run.submitted", run=manifest.run, manifest=manifest.digest.hex(), again=True)
            bell.over(bell.REFUSED, manifest.run, manifest.digest.hex())
            await self._set(run, State.verifying, "")
            self._drive(run)
        return manifest.digest

    async def joined(self, run: Run, party: str, accepted: bool, reason: str, heard: str | None = None) -> str:
        """A party's decision, durable before it is acknowledged. Who has left may come back, not without end.

        `heard` is the event of the party that it mentions; this coordinator's comes back, if there is one.
        """
        uri = NodeName(run.manifest.federation, Role.party, party).uri
        word = "joined" if accepted else "refused"
        if (accepted and party in run.joined) or (not accepted and run.refused.get(party) == reason):
            return ""
        if run.decisions[party] >= MOST_DECISIONS:
            raise RefusedCallError(
                common_pb2.REFUSAL_CONTRADICTION,
                f"{party} has changed its mind {MOST_DECISIONS} times",
                "what it said last stands",
            )
        run.decisions[party] += 1
        await self._work(self._tools.store.answer, run.manifest.digest, uri, word, reason)
        crash.point("coordinator.joined")
        event = self._tools.note("run." + word, run=run.manifest.run, party=party, peer_event=heard)
        async with run.changed:
            if accepted:
                run.joined.add(party)
                run.refused.pop(party, None)
            else:
                run.joined.discard(party)
                run.refused[party] = reason
            run.changed.notify_all()
        return event

    async def stop(self, name: str, final: bool) -> State:
        """Pause a run, or end it. Once begun it is carried through, whether or not the operator still waits."""
        stopping = asyncio.ensure_future(self._stop(name, final))
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)
        return await asyncio.shield(stopping)

    async def _stop(self, name: str, final: bool) -> State:
        run = self.named(name)
        if run.state.final and final and self._owed(run):
            await Driver(run, self._tools, self._gather_seconds).settle_late()
            if not self._owed(run):
                return run.state
            raise StateError(
                f"run {name} is {run.state}, and the aggregators have not signed its end: start them, then repeat this"
            )
        if run.state.final:
            raise StateError(f"run {name} is {run.state} already")
        task = self._tasks.pop(run.manifest.digest, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        try:
            await self._rest(run, final)
        except CoordinatorError:
            raise
        except Exception:
            self._drive(run)  # neither stopped nor ended, such as for a failing disk: never without a driver
            raise
        await self._tell()
        return run.state

    async def _rest(self, run: Run, final: bool) -> None:
        if final:
            try:
                await Driver(run, self._tools, self._gather_seconds).end_early("stopped for good by the operator")
            except CoordinatorError as error:
                # Not signed by both aggregators, so nothing is settled: the run rests, and can be stopped again.
                await self._set(run, State.stopped, f"not ended: {error}")
                raise
        else:
            again = f"parley resume {run.manifest.run} goes on from there"
            await self._set(run, State.stopped, f"stopped by the operator; {again}")

    async def resume(self, name: str) -> State:
        """Go on with a run that rests."""
        run = self.named(name)
        if not run.state.resumable:
            raise StateError(f"run {name} is {run.state}: only a run that stalled or was stopped can be resumed")
        bell.over(bell.STALLED, run.manifest.run, run.manifest.digest.hex())
        stored = self._tools.store.get(run.manifest.digest)
        assert stored is not None
        begun = stored.started is not None
        await self._set(run, State.running if begun else State.verifying, "")
        if begun and (stored.round >= run.manifest.releases or self._tools.store.theta(stored.digest) is not None):
            await self._set(run, State.ending, "")
        self._drive(run)
        return run.state

    def aggregators(self) -> set[NodeName]:
        """Of runs that are under way; from any thread, as `parties`."""
        return {name for run in self._active() for name in run.manifest.identities(Role.aggregator)}

    def parties(self) -> dict[NodeName, float]:
        """Those that take part in a run that is under way, and when each last asked for work."""
        found: dict[NodeName, float] = {}
        for run in self._active():
            for party in tuple(run.joined):
                name = NodeName(run.manifest.federation, Role.party, party)
                found[name] = max(found.get(name, 0.0), run.seen.get(party, 0.0))
        return found

    def _active(self) -> list[Run]:
        return [run for run in tuple(self.all.values()) if not run.state.resting]

    async def close(self) -> None:
        """Leave everything as the disk has it."""
        tasks = [*self._tasks.values(), *self._stopping]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _drive(self, run: Run) -> None:
        driver = Driver(run, self._tools, self._gather_seconds)

        async def go() -> None:
            watcher = asyncio.ensure_future(self._forward(run))
            try:
                await driver.drive()
            finally:
                watcher.cancel()
                await self._tell()

        self._tasks[run.manifest.digest] = asyncio.ensure_future(go())

    def _owed(self, run: Run) -> bool:
        """Whether others may have charged for it, and have no proof of its end."""
        told = self._tools.store.answers(run.manifest.digest)
        return run.state.final and bool(told) and len(run.ends) < BOTH

    def _settle(self, run: Run) -> None:
        task = asyncio.ensure_future(Driver(run, self._tools, self._gather_seconds).settle_late())
        self._tasks[run.manifest.digest] = task

    async def _forward(self, run: Run) -> None:
        """Whoever waits for any run hears when this one may be joined."""
        while run.state is State.verifying:
            async with run.changed:
                await run.changed.wait()
        await self._tell()

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def _set(self, run: Run, state: State, outcome: str) -> None:
        await self._work(self._tools.store.set_state, run.manifest.digest, state, outcome)
        self._tools.note("run." + state, run=run.manifest.run)
        await run.move(state, outcome)

    def named(self, name: str) -> Run:
        """By its name; refused where there is none."""
        for run in self.all.values():
            if run.manifest.run == name:
                return run
        raise StateError(f"no run {name[:80]!r} on this coordinator")

    async def _work(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._tools.worker, function, *arguments)
