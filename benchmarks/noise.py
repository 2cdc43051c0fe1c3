"""The figures of the noise table in docs/benchmarks.md.

    python benchmarks/noise.py                 # 60 s a row, about 8 minutes
    python benchmarks/noise.py --seconds 5     # a quick look

Every row is `parley bench noise` with its baseline (textbook rectangle over IKNP transfers) in the same run.
"""

import argparse
import json
import subprocess
import sys

ROWS = [
    ("123", "standard", "grpc"),
    ("26000", "standard", "grpc"),
    ("62000", "standard", "grpc"),
    ("62000", "standard", "socket"),
    ("26000", "high", "grpc"),
    ("62000", "high", "grpc"),
]
COLUMNS = ["D", "precision", "channel", "ms", "Gaussians/s", "bytes", "exchanges", "cold s", "baseline", "AES GB/s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", default="60")
    seconds = parser.parse_args().seconds
    print("| " + " | ".join(COLUMNS) + " |")
    print("| --- " * len(COLUMNS) + "|")
    rate, size = "gaussians_per_second", "bytes_per_gaussian_per_server"
    for dimension, precision, channel in ROWS:
        command = [sys.executable, "-m", "parley.cli.main", "bench", "noise", "--json", "--dimension", dimension]
        command += ["--precision", precision, "--channel", channel]
        command += ["--seconds", "0" if dimension == "123" else seconds]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        row = json.loads(done.stdout.splitlines()[-1])
        other = row["baseline"]
        cells = [
            f"{int(dimension):,}", precision, channel, f"{row['seconds'] * 1e3:.1f}", f"{row[rate]:,.0f}",
            f"{row[size]:,.0f}", f"{row['exchanges']:g}", f"{row['cold_seconds']:.2f}",
            f"{other[rate]:,.0f} /s, {other[size]:,.0f} bytes", f"{row['aes_gb_s']:.1f}",
        ]  # fmt: skip
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
