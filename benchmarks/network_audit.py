"""A lower bound on ε of a user's network from runs of real federations (parley.bench.network_audit says how).

    python benchmarks/network_audit.py --runs 8 --json docs/experiments/network-audit.json
    python benchmarks/network_audit.py --runs 1 --records 400 --faults clip

Exit code 1 where the honest federation's bound exceeds what is claimed, or a fault's does not.
"""

import argparse
import json
import os
import shlex
import sys
from pathlib import Path

from parley.bench.network_audit import Size, audit, bad_news
from parley.bench.watched_node import FAULTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4, help="each of a federation of its own")
    parser.add_argument("--rounds", type=int, default=16, help="of a run")
    parser.add_argument("--records", type=int, default=1000, help="of a run; each is a canary")
    parser.add_argument("--epsilon", type=float, default=12.0, help="of a run, at 1e-5")
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--faults", default=",".join(FAULTS), help="with a comma between two; empty for none")
    parser.add_argument("--fault-runs", type=int, default=1)
    parser.add_argument("--json", type=Path, default=None)
    chosen = parser.parse_args()
    size = Size(chosen.runs, chosen.rounds, chosen.records, chosen.epsilon)
    faults = [name for name in chosen.faults.split(",") if name]
    found = {
        "command": shlex.join(["python", *sys.argv]),
        **audit(size, chosen.confidence, faults, chosen.fault_runs),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[1],
    }
    text = json.dumps(found, indent=1)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")
    if news := bad_news(found):
        raise SystemExit(news)


if __name__ == "__main__":
    main()
