"""A node as the audit of a federation starts it: the coordinator writes down what it is given, or a node has a fault.

    python -m parley.bench.watched_node CHANGE[,CHANGE…] MODULE NODE

The coordinator is the adversary of the claim, so that it may keep every sum that is opened to it. A fault replaces one
part of the product in this process alone; nothing in the product has a switch for it.
"""

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.attacks.kinds import Guard, removed
from parley.coordinator.driver import Driver
from parley.coordinator.questions import Question
from parley.federation.names import Role
from parley.models.apart import Apart

OPENED = "opened"
TOO_LONG = 3
"""Times its clip norm: what a record may add where the clip is at fault."""

_step, _gradients = Driver._step, Apart.gradients


def opened(node: Path, index: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The model that a round asked about, and the sum that came of it, in steps of the lattice."""
    with np.load(node / OPENED / f"{index}.npz") as found:
        return found["point"], found["total"]


def _written_down(driver: Driver, question: Question, opening: Any, started: float) -> Question | None:
    folder = Path(sys.argv[-1]) / OPENED
    folder.mkdir(exist_ok=True)
    (point,) = question.points.values()
    asked = np.frombuffer(point, "<f8")
    np.savez(folder / f"{question.round.index}.npz", point=asked, total=opening.total)
    return _step(driver, question, opening, started)


def _too_long(apart: Apart, *asked: Any) -> NDArray[np.int64]:
    """The kernel refuses steps beyond its room, so that each clipped term is lengthened once it is there."""
    return TOO_LONG * _gradients(apart, *asked)


CHANGES = {
    "written down": Guard("written down", "parley.coordinator.driver:Driver._step", _written_down),
    "clip": Guard("clip", "parley.models.apart:Apart.gradients", _too_long),
    # Each server drops one bit more of its share of a sample, and whoever opens the sum lifts it as they do.
    "noise": Guard(
        "noise",
        "parley.mpc.ring:Lattice.dropped_bits",
        property(lambda lattice: lattice.scale_bits - lattice.fraction_bits + 1),
    ),
}
FAULTS = {
    "clip": ("a record three times as long as its clip norm", (Role.party,)),
    "noise": ("half the noise", (Role.aggregator, Role.coordinator)),
}
"""What it is, and whose processes have it."""


def changes(role: Role, fault: str | None) -> str:
    """Of a node of this role; empty where it runs as it is."""
    at_fault = fault is not None and role in FAULTS[fault][1]
    return ",".join([*(["written down"] if role is Role.coordinator else []), *([str(fault)] if at_fault else [])])


def main() -> None:
    names, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    with removed(*(CHANGES[name] for name in names.split(","))):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
