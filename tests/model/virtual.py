"""One process, no network, a clock that jumps: where the model of the whole system lives.

Event loop and threads share one virtual time (`time.monotonic`). A thread either runs or waits here, for a frame, an
answer or a pause; the loop goes on only when all threads wait, and when it has nothing to do either, the clock jumps to
the next timer. So thirty seconds of deadline cost nothing, and one schedule of rules gives one course of events.
"""

import asyncio
import contextvars
import heapq
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from typing import Any, Self

from parley.mpc.errors import PeerClosedError, PeerTimeoutError

NODE: contextvars.ContextVar["Mortal | None"] = contextvars.ContextVar("node", default=None)
"""On whose behalf code runs: of tasks, of the workers they use, of a party's thread."""
STUCK_SECONDS = 600.0
"""Real ones: a thread that neither waits nor ends is a defect of the model."""


class Died(BaseException):
    """This process was killed; nothing that runs on its behalf goes on."""


class Mortal:
    """Something that can be killed."""

    name = ""
    dead = False
    life = 0
    """How often it was started."""

    def die(self) -> None:
        """Memory is gone; what is durable stays."""
        raise NotImplementedError


class World:
    """Clock, loop and the count of running threads."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._changed = threading.Condition()
        self._running = 0
        self._runnable: deque[Callable[[], None]] = deque()
        self.loop = _Loop(self)
        self.loop.set_task_factory(self._task)
        self.tasks: set[asyncio.Task[Any]] = set()

    def advance(self, seconds: float) -> None:
        """Let everything happen that happens in this time."""
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def soon(self, start: Callable[[], None]) -> None:
        """A thread is to run, by `start`, when those before it wait: one at a time, so that a schedule repeats."""
        with self._changed:
            self._runnable.append(start)

    def waits(self) -> None:
        """Said by the thread that ran: it waits, or has ended."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def wait_idle(self) -> None:
        """Until no thread has anything to do."""
        with self._changed:
            while self._runnable:
                self._running += 1
                self._runnable.popleft()()
                if not self._changed.wait_for(lambda: self._running == 0, STUCK_SECONDS):
                    raise AssertionError("a thread neither waits nor ends")

    def _task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, context: Any = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, context=context)
        task.owner = NODE.get() if context is None else context.get(NODE)  # type: ignore[attr-defined]
        self.tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # taken note of: whoever needs it awaits it

    def cancel_of(self, node: Mortal) -> None:
        for task in list(self.tasks):
            if getattr(task, "owner", None) is node:
                task.cancel()

    def close(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        self.advance(0.01)
        self.loop.close()


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, world: World) -> None:
        self._world = world
        super().__init__()

    def time(self) -> float:
        return self._world.now

    def _run_once(self) -> None:
        self._world.wait_idle()
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0].cancelled():
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
        if not self._ready and scheduled:  # type: ignore[attr-defined]
            self._world.now = max(self._world.now, scheduled[0].when())
        super()._run_once()  # type: ignore[misc]


class Waiter:
    """What a thread waits for: it counts as running from the moment that it is woken."""

    def __init__(self, world: World) -> None:
        self._world, self._event = world, threading.Event()
        self._woken = False
        self._result: Any = None
        self._error: BaseException | None = None

    def wake(self, result: Any = None, error: BaseException | None = None) -> None:
        """The first one counts."""
        if not self._woken:
            self._result, self._error, self._woken = result, error, True
            self._world.soon(self._event.set)

    def wait(self) -> Any:
        self._world.waits()
        self._event.wait()
        if self._error is not None:
            raise self._error
        return self._result


class Threads(Executor):
    """Workers in which conversations run; they work for the node whose task asked, and in later worlds again."""

    _idle: "queue.SimpleQueue[_Worker]" = queue.SimpleQueue()

    def __init__(self, world: World) -> None:
        self._world = world

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        context = contextvars.copy_context()
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = _Worker(self._idle)
        job = (self._world, future, lambda: context.run(function, *arguments, **named))
        self._world.soon(lambda: worker.jobs.put(job))
        return future


class _Worker:
    def __init__(self, idle: "queue.SimpleQueue[_Worker]") -> None:
        self.jobs: queue.SimpleQueue[tuple[World, Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._idle = idle
        threading.Thread(target=self._main, daemon=True).start()

    def _main(self) -> None:
        while True:
            world, future, job = self.jobs.get()
            try:
                result = job()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            self._idle.put(self)
            world.waits()


class Inline(Executor):
    """Work that never waits is done at once, in the loop's thread."""

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except BaseException as error:
            future.set_exception(error)
        return future


class FrameLink:
    """`parley.mpc.channel.Link` in memory, with its deadlines in virtual time."""

    def __init__(self, world: World) -> None:
        self._world, self._lock = world, threading.Lock()
        self._inbox: deque[bytes] = deque()
        self._open = True
        self._waiter: Waiter | None = None
        self.peer: FrameLink = self

    @classmethod
    def pair(cls, world: World) -> tuple[Self, Self]:
        first, second = cls(world), cls(world)
        first.peer, second.peer = second, first
        return first, second

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        with self.peer._lock:
            if not self.peer._open:
                raise PeerClosedError("the other server has closed the connection")
            self.peer._inbox.append(bytes(frame))
            self.peer._wake()

    def receive(self, deadline: float) -> bytes:
        while True:
            with self._lock:
                if self._inbox:
                    return self._inbox.popleft()
                if not self._open:
                    raise PeerClosedError("the other server has closed the connection")
                waiter = self._waiter = Waiter(self._world)
            late = PeerTimeoutError("the other server did not answer in time")
            self._world.loop.call_soon_threadsafe(self._expire_at, deadline, waiter, late)
            waiter.wait()

    def _expire_at(self, deadline: float, waiter: Waiter, late: PeerTimeoutError) -> None:
        self._world.loop.call_at(deadline, lambda: waiter.wake(error=late))

    def _wake(self) -> None:
        if self._waiter is not None:
            self._waiter.wake()
            self._waiter = None

    def close(self) -> None:
        for end in (self, self.peer):
            with end._lock:
                end._open = False
                end._wake()


Make = Callable[[], Awaitable[Any]]


def call_from_thread(world: World, make: Make, owner: Mortal, waiters: set[Waiter]) -> Any:
    """Have the loop await something while this thread waits; killed with its owner."""
    waiter = Waiter(world)
    waiters.add(waiter)

    async def go() -> None:
        try:
            waiter.wake(await make())
        except asyncio.CancelledError:
            waiter.wake(error=Died())
            raise
        except BaseException as error:
            waiter.wake(error=error)

    context = contextvars.copy_context()
    world.loop.call_soon_threadsafe(lambda: world.loop.create_task(go()), context=context)
    try:
        return waiter.wait()
    finally:
        waiters.discard(waiter)
        if owner.dead:
            raise Died
