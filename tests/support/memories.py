"""A party whose memory is tried."""

from contextlib import closing
from pathlib import Path

import numpy as np

from parley.federation.manifest import Manifest
from parley.party.outbox import Outbox
from tests.support.stage import Stage
from tests.support.until import until

POINT = np.array([0.1, -0.2, 0.3])


def joined(stage: Stage, made: Manifest) -> None:
    until(lambda: any(each.manifest_digest == made.digest and each.accepted for each in stage.coordinator.joins))


def left(stage: Stage) -> str:
    """Why, as the coordinator hears it."""
    return str(until(lambda: [each.reason for each in stage.coordinator.joins if not each.accepted])[-1])


def state(stage: Stage, run: str = "heart-1") -> str:
    with closing(Outbox(stage.node / "state" / "outbox.sqlite")) as outbox:
        return next((held.state for held in outbox.runs() if held.run == run), "")


def files(stage: Stage, pattern: str) -> list[Path]:
    return [path for path in (stage.node / "state").glob(pattern) if path.is_file()]
