"""What a run costs these records, from the accountant's process, kept: a page never waits for an accountant."""

import asyncio
import time
from dataclasses import dataclass, field

from parley.errors import ParleyError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_apart_with_charge
from parley.party.settings import Settings
from parley.privacy.filters import Charge, Policy

MOST_RUNS = 64
MOST_PROBLEM = 500
AGAIN_SECONDS = 60.0
"""After which a refusal is asked for again: it may be of a passing cause."""


@dataclass(frozen=True)
class Cost:
    """Of one run: computed, or why not."""

    meaning: Meaning | None = None
    charge: Charge | None = None
    problem: str = ""
    at: float = field(default_factory=time.monotonic, compare=False)

    @property
    def known(self) -> bool:
        return self.meaning is not None


class Costs:
    """One per process; lives on the event loop. One accountant at a time: each takes a hundred megabytes."""

    def __init__(self, settings: Settings, party: str) -> None:
        self._settings, self._party = settings, party
        self._known: dict[tuple[bytes, Policy], Cost] = {}
        self._tasks: dict[tuple[bytes, Policy], asyncio.Task[None]] = {}
        self._one = asyncio.Semaphore(1)

    def of(self, manifest: Manifest, policy: Policy) -> Cost | None:
        """None while it is being computed."""
        key = manifest.digest, policy
        found = self._known.get(key)
        if found is not None and not found.known and time.monotonic() > found.at + AGAIN_SECONDS:
            del self._known[key]
        if key not in self._known and key not in self._tasks:
            while len(self._known) >= MOST_RUNS:
                del self._known[next(iter(self._known))]
            self._tasks[key] = asyncio.ensure_future(self._compute(manifest, policy))
        return self._known.get(key)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _compute(self, manifest: Manifest, policy: Policy) -> None:
        key = manifest.digest, policy
        try:
            async with self._one:
                meaning, charge = await asyncio.to_thread(
                    verify_apart_with_charge, manifest, self._party, policy, self._settings.verified
                )
            self._known[key] = Cost(meaning, charge)
        except (ParleyError, OSError) as error:
            self._known[key] = Cost(problem=str(error)[:MOST_PROBLEM])
        finally:
            self._tasks.pop(key, None)
