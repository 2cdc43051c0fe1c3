"""How fast this party computes, for its own operator: in its state, shown by `parley party status` and nowhere else.

How long a sum took may depend on records, so it goes into no answer, log, metric or trail. The file is a convenience:
it is not forced to the disk, and one that cannot be written changes nothing of a run.
"""

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.privacy.durable import PRIVATE

RECENT = 20
"""Rounds that the figure is of."""


@dataclass
class Speed:
    """Of one run in this process."""

    path: Path
    took: list[tuple[int, float]] = field(default_factory=list)
    """Records, and seconds, of the newest rounds."""

    def note(self, records: int, seconds: float) -> None:
        """`records` is the public length of a batch, absent ones among it: all take part in the work."""
        self.took = [*self.took[1 - RECENT :], (records, max(seconds, 1e-9))]
        every, all_seconds = (sum(column) for column in zip(*self.took, strict=True))
        body = {"records_per_second": every / all_seconds, "rounds": len(self.took), "seconds": seconds}
        fresh = self.path.with_name(f".{self.path.name}.new")
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "w") as file:
                file.write(json.dumps(body))
            os.replace(fresh, self.path)


def speed_at(path: Path) -> dict[str, Any] | None:
    """What was noted last; None where no round was computed, or the file is not what was written."""
    try:
        found = json.loads(path.read_bytes())
        return {
            "records_per_second": float(found["records_per_second"]),
            "rounds": int(found["rounds"]),
            "seconds": float(found["seconds"]),
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None
