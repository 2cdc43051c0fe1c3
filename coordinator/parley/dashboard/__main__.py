"""python -m parley.dashboard NODE [--listen HOST:PORT] [--beside]: what `parley dashboard` becomes."""

import argparse
from pathlib import Path

from parley.dashboard.process import main
from parley.node.entry import enter
from parley.node.node_file import Address

parser = argparse.ArgumentParser(prog="python -m parley.dashboard")
parser.add_argument("node", type=Path)
parser.add_argument("--listen", type=Address.parse)
parser.add_argument("--beside", action="store_true", help="end when standard input does")
given = parser.parse_args()
enter(lambda: main(given.node, given.listen, given.beside))
