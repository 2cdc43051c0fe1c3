"""python -m parley.coordinator NODE [--gather SECONDS]: what `parley coordinator run` becomes."""

import argparse
from pathlib import Path

from parley.coordinator.operator_client import coordinator_node
from parley.coordinator.process import main
from parley.coordinator.runs import GATHER_SECONDS
from parley.node.alone import alone
from parley.node.entry import enter
from parley.node.notes import notes

parser = argparse.ArgumentParser(prog="python -m parley.coordinator")
parser.add_argument("node", type=Path)
parser.add_argument("--gather", type=float, default=GATHER_SECONDS)
given = parser.parse_args()


def serve() -> None:
    node = coordinator_node(given.node)
    with alone(node.state, node.role):  # before anything there is opened
        main(node, notes(node), given.gather)


enter(serve)
