"""Resident memory of a process that holds one party's records and contributor, as its long-running client does.

    OMP_NUM_THREADS=1 python benchmarks/party_memory.py a9a/a9a.xz --parties 10

Reads one party's share of the file (every m-th line, put aside by another process), answers DDP-SRM queries
on it and prints one line of JSON: mebibytes resident after the queries, at the peak, and of the bare interpreter with
NumPy. No accountant is loaded: noise is calibrated elsewhere, once.
"""

import argparse
import json
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

QUERIES = 5


def resident(field: str) -> float:
    """VmRSS or VmHWM of this process, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def hold(path: Path) -> dict[str, float | int]:
    """One party: its records, its contributor, and a few rounds."""
    import numpy as np

    bare = resident("VmRSS")
    from parley.learning.contributor import Contributor, Encoding, Query
    from parley.learning.holding import described
    from parley.learning.models import Linear, Logistic
    from parley.learning.records import load
    from parley.node.collector import settle
    from parley.privacy.clipping import MomentumClip
    from parley.privacy.mechanism import Cohort, Mechanism
    from parley.privacy.randomness import SystemRandomness
    from parley.privacy.sampling import FixedSize

    layout, schema = described(
        {
            "format": "libsvm",
            "target": {"name": "label", "kind": "binary", "positive": ["1"], "negative": ["-1"]},
            "features": {"count": 123, "low": 0, "high": 1, "whole": True},
            "nonzeros": 14,
        }
    )
    records = load([path], schema, layout)
    model = Linear(schema.dimension, Logistic())
    mechanism = Mechanism((Cohort("a", FixedSize(records.units, 40)),), MomentumClip(2.5, 0.02, 0.5), 1.5, QUERIES)
    party = Contributor("a", records, model, Encoding.of(mechanism, 41, model.largest_limit), SystemRandomness())
    theta = np.zeros(model.dimension)
    settle()
    for index in range(QUERIES):
        party.contribution(Query(index, (theta,) if index == 0 else (theta + 0.01 * index, theta)))
    return {
        "records": len(records.rows),
        "resident_mib": resident("VmRSS"),
        "peak_mib": resident("VmHWM"),
        "numpy_mib": bare,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--parties", type=int, default=10)
    parser.add_argument("--hold", action="store_true", help="The file is one party's: hold it and measure.")
    arguments = parser.parse_args()
    if arguments.hold:
        print(json.dumps(hold(arguments.file)))
        return
    with tempfile.TemporaryDirectory() as folder:
        share = Path(folder) / "party.txt"
        opened = lzma.open if arguments.file.suffix == ".xz" else open
        with opened(arguments.file, "rt") as whole:
            share.write_text("".join(line for number, line in enumerate(whole) if number % arguments.parties == 0))
        subprocess.run([sys.executable, __file__, str(share), "--hold"], check=True)


if __name__ == "__main__":
    main()
