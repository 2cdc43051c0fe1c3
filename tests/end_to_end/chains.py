"""Nodes of a federation that die at one labelled point after another, and are started again each time.

Every process is started with the next label of its own list armed (`parley.mpc.crash`); the last one with none.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from parley.demo.local import NodeProcess
from parley.mpc.crash import VARIABLE
from tests.support.until import until

T = TypeVar("T")
PAUSE_SECONDS = 0.1
ROOT = Path(__file__).parents[2]
AMONG_TESTS = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
"""Where a server's module is one of tests.support."""


@dataclass
class Chain:
    """One node, and what it still has to die of: LABEL or LABEL:COUNT."""

    node: NodeProcess
    labels: list[str] = field(default_factory=list)
    armed: str = ""

    def start(self) -> None:
        self.armed = self.labels.pop(0) if self.labels else ""
        self.node.start({**(AMONG_TESTS if self.node.before else {}), VARIABLE: self.armed})

    def step(self) -> None:
        """Started again if it has died; an AssertionError where it died of anything else."""
        process = self.node.process
        assert process is not None
        code = process.poll()
        if code is None:
            return
        assert (code, bool(self.armed)) == (-signal.SIGKILL, True), f"{self.node.name}: {code}, {self.node.tail()}"
        self.start()

    @property
    def left(self) -> list[str]:
        return [self.armed, *self.labels] if self.armed else []


def until_while_they_die(chains: Iterable[Chain], happened: Callable[[], T], message: str = "") -> T:
    """What it returned, as soon as that is true; whoever dies meanwhile is started again."""
    chains = list(chains)

    def looked() -> T:
        for chain in chains:
            chain.step()
        return happened()

    try:
        return until(looked, message, PAUSE_SECONDS)
    except AssertionError as error:
        left = {chain.node.name: chain.left for chain in chains if chain.left}
        tails = "\n".join(f"{chain.node.name}: {chain.node.tail()[-800:]}" for chain in chains)
        raise AssertionError(f"{error}; still to die: {left}\n{tails}") from error
