"""Tables 5 and 6 of the core paper on ours: one secure aggregation of each layer's gradients, noise included.

    python benchmarks/layers.py --out docs/experiments/layers.json        # 20 runs, a few seconds each

Every row is `parley bench noise` of so many numbers: two servers, TLS, joint noise without own parts, as in the paper;
warm, and from two fresh processes. Bytes of noise are those of both servers; shares are what five parties upload and
the two servers exchange to open the sum, which `parley bench aggregate` shows to take milliseconds. The last row of a
network is all of it at once, which is what a run does: a layer alone is the paper's way of counting.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

PARTIES = 5
HEADS = ("layer", "numbers", "noise MB", "shares MB", "s", "cold s", "paper GB", "paper s")
TABLES: dict[str, tuple[int, list[tuple[tuple[int, ...], float, float]]]] = {
    "MNIST CNN": (5, [
        ((16, 1, 8, 8), 13.28, 94.49), ((16,), 0.21, 1.65), ((32, 16, 4, 4), 106.26, 745.12), ((32,), 0.42, 3.05),
        ((32, 512), 212.51, 1493.11), ((32,), 0.42, 3.05), ((10, 32), 4.14, 28.99), ((10,), 0.13, 1.07),
    ]),
    "CNN5": (6, [
        ((6, 3, 5, 5), 3.65, 41.96), ((6,), 0.05, 0.73), ((16, 6, 5, 5), 19.46, 219.08), ((16,), 0.13, 1.74),
        ((120, 400), 389.11, 4352.29), ((120,), 0.97, 11.07), ((84, 120), 81.71, 914.49), ((84,), 0.68, 7.84),
        ((10, 84), 6.81, 76.36), ((10,), 0.08, 1.07),
    ]),
}  # fmt: skip
"""Shapes, gigabytes of garbled circuit, and seconds, of tables 5 and 6."""
TRANSFERS = {"MNIST CNN": 6.8, "CNN5": 16.16}
"""Gigabytes of oblivious transfer of a whole network, in the text."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON file that takes the figures")
    given = parser.parse_args()
    rows = [row for name, (number, layers) in TABLES.items() for row in measured(name, number, layers)]
    if given.out:
        given.out.write_text(json.dumps({"parties": PARTIES, "rows": rows}, indent=1) + "\n")


def measured(name: str, number: int, layers: list[tuple[tuple[int, ...], float, float]]) -> list[dict[str, Any]]:
    """A row for each layer, and one for the network."""
    print(f"\nTable {number}, {name}\n\n| " + " | ".join(HEADS) + " |")
    print("| --- " * len(HEADS) + "|")
    wanted = [("x".join(map(str, shape)), math.prod(shape), size, seconds) for shape, size, seconds in layers]
    whole = sum(each[1] for each in wanted)
    wanted.append(("all", whole, sum(each[2] for each in wanted) + TRANSFERS[name], sum(each[3] for each in wanted)))
    rows = []
    for layer, dimension, size, seconds in wanted:
        words = ["bench", "noise", "--no-baseline", "--own", "0", "--dimension", str(dimension), "--json"]
        command = [sys.executable, "-m", "parley.cli.main", *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        noise = 2 * found["bytes_per_gaussian_per_server"] * dimension
        shares = PARTIES * (8 * dimension + 32) + 2 * 8 * dimension
        print(
            f"| {layer} | {dimension:,} | {noise / 1e6:.2f} | {shares / 1e6:.3f} | {found['seconds']:.3f} | "
            f"{found['cold_seconds']:.2f} | {size:.2f} | {seconds:.1f} |",
            flush=True,
        )
        row = {"network": name, "layer": layer, "dimension": dimension, "noise_bytes": noise, "share_bytes": shares}
        row |= {"seconds": found["seconds"], "cold_seconds": found["cold_seconds"]}
        rows.append({**row, "paper_gb": size, "paper_seconds": seconds})
    return rows


if __name__ == "__main__":
    main()
