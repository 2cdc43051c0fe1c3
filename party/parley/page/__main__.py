"""python -m parley.page NODE [--listen HOST:PORT]: what `parley page` becomes."""

import argparse
from pathlib import Path

from parley.node.entry import enter
from parley.node.node_file import Address
from parley.page.process import main

parser = argparse.ArgumentParser(prog="python -m parley.page")
parser.add_argument("node", type=Path)
parser.add_argument("--listen", type=Address.parse)
given = parser.parse_args()
enter(lambda: main(given.node, given.listen))
