"""python -m parley.aggregator NODE: what `parley aggregator run` becomes."""

import argparse
from pathlib import Path

from parley.aggregator.process import run
from parley.node.entry import enter

parser = argparse.ArgumentParser(prog="python -m parley.aggregator")
parser.add_argument("node", type=Path)
given = parser.parse_args()
enter(lambda: run(given.node))
