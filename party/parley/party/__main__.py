"""python -m parley.party NODE: what `parley party run` becomes."""

import argparse
from pathlib import Path

from parley.node.entry import enter
from parley.party.process import run

parser = argparse.ArgumentParser(prog="python -m parley.party")
parser.add_argument("node", type=Path)
given = parser.parse_args()
enter(lambda: run(given.node))
