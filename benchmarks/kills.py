"""Kill −9 at every labelled durable transition and at random moments: a small federation of real processes, checked.

OMP_NUM_THREADS=1 python benchmarks/kills.py --kills 300 --json docs/experiments/kills.json

What has to hold after each run is in tests/end_to_end/killed.py; the first thing that does not ends this program, and
leaves the run's folder. docs/faults-kills.md explains the figures.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.end_to_end.kill_series import series


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--labels", type=int, default=6, help="per process, while a run's rounds go on")
    parser.add_argument("--random", type=int, default=12, help="kills at random moments, per run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="parley-kills-"))
    print(folder, flush=True)
    made = series(
        folder, chosen.kills, chosen.rounds, chosen.labels, chosen.random, chosen.seed,
        lambda text: print(text, flush=True),
    )  # fmt: skip
    body = {"command": " ".join(["python", *sys.argv]), **made.as_json()}
    text = json.dumps(body, indent=2) + "\n"
    print(text)
    if chosen.json:
        chosen.json.write_text(text)
    if made.missed:
        sys.exit(f"never died at {', '.join(made.missed)}")


if __name__ == "__main__":
    main()
