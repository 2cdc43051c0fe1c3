"""A role's pages or a tracker beside its process: a child, started by its module's name and kept running.

A process of its own: whatever happens in it, the run goes on, and no role loads a web framework. It ends with its
role's process, however that ends, because it reads a pipe that is held there; it is started again when it dies early,
more and more slowly.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from parley.node.backoff import Backoff

STOP_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0


class Pages:
    """Keeps the child running; `ended` is told when it ends early. `environment` is all that it gets of this process's,
    where it is given."""

    def __init__(
        self, module: str, folder: Path, ended: Callable[[], object], environment: Mapping[str, str] | None = None
    ) -> None:
        self._module, self._folder, self._ended, self._environment = module, folder, ended, environment
        self._task = asyncio.ensure_future(self._keep())

    async def _keep(self) -> None:
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            begun = time.monotonic()
            with contextlib.suppress(OSError):  # no process, no memory: the run goes on without its page
                await self._once()
            if time.monotonic() - begun > LONGEST_PAUSE_SECONDS:
                backoff.reset()
            if backoff.seconds == FIRST_PAUSE_SECONDS:  # once: an address that is taken must not fill the audit trail
                self._ended()
            await asyncio.sleep(backoff.next_seconds())

    async def _once(self) -> None:
        command = [sys.executable, "-P", "-m", self._module, str(self._folder), "--beside"]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=None,
            env=self._environment,
        )
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), STOP_SECONDS)
                except TimeoutError:
                    process.kill()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
