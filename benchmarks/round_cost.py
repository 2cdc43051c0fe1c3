"""What a round costs each process of a federation, in instructions and CPU seconds, of one checkout beside another.

    python benchmarks/round_cost.py --before OLD/.venv/bin/python --after NEW/.venv/bin/python --json round-cost.json

Both checkouts play the same study (`parley bench train`: ten parties, d = 123) as processes over TLS, in turn, in one
run of this script. Instructions are those of user space, counted by valgrind (`cachegrind`, no caches simulated) in one
process at a time (an aggregator, the coordinator, a party) while the others run as they are: a run of many rounds less
one of few, over the difference, so that start, keys and the filling of the pool fall out. They hardly depend on what
else the machine does. valgrind knows no AVX-512, so that what is counted runs the kernels' baseline variant. The pool
is filled beforehand and lasts: no noise is made meanwhile. CPU seconds are the kernel's, of all processes of a role,
without valgrind, medians over the repetitions. Give it an idle machine: under valgrind a process is some 25 times
slower, and one that also waits for a core misses its peers' deadlines.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROLES = {"aggregator": "north", "coordinator": "lead", "party": "party-1"}
"""The process of each that is counted."""
CAPACITY = 1 << 15
"""Of a pool: more than twice what the longer run takes, for a pool is filled again once half of it is used."""
PATIENCE_SECONDS = 900.0
BASELINE = """
from parley.mpc import kernels
kernels.processor_features = lambda: kernels.BASELINE_FEATURES
import runpy, sys
module, *sys.argv[1:] = sys.argv[1:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""A role's process on the processor that valgrind plays, also where a checkout asks /proc/cpuinfo: that is still this
machine's."""
COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def play(parties: int, dimension: int, rounds: int, counted: str, log: Path) -> dict[str, Any]:
    """One run of this process's checkout; valgrind in front of the process named `counted`, if any."""
    from parley.bench import train_bench
    from parley.bench.train_data import study, write_party
    from parley.demo import local

    start = subprocess.Popen

    def starting(command: list[str], *rest: Any, **more: Any) -> "subprocess.Popen[bytes]":
        if command[0] == sys.executable and Path(command[-1]).name == counted:
            tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
            command = [*tool, f"--log-file={log}", sys.executable, "-c", BASELINE, *command[3:]]
        return start(command, *rest, **more)

    # The older checkout has no place for a command in front, nor for more patience.
    local.subprocess.Popen = starting  # type: ignore[assignment,misc]
    local.NodeProcess.wait_ready.__defaults__ = (PATIENCE_SECONDS,)
    local.STOP_SECONDS = train_bench.FILL_SECONDS = train_bench.STATUS_SECONDS = PATIENCE_SECONDS
    with local.terminated_like_interrupted(), tempfile.TemporaryDirectory(prefix="parley-round-cost-") as folder:
        home = Path(folder)
        data = {}
        for place in range(parties):
            path = home / f"party-{place + 1}.libsvm"
            write_party(path, place, dimension)
            data[path.stem] = [path]
        manifest = study("cost", parties, dimension, rounds)
        return train_bench.measure(home / "nodes", manifest, data, capacity=CAPACITY)


def played(python: Path, parties: int, dimension: int, rounds: int, counted: str = "") -> tuple[dict[str, Any], int]:
    """`play` in a process of that checkout: its figures, and the instructions of what was counted."""
    with tempfile.TemporaryDirectory(prefix="parley-round-cost-") as folder:
        log = Path(folder) / "valgrind.log"
        words = [str(each) for each in (parties, dimension, rounds)]
        command = [str(python), __file__, "--play", *words, counted, str(log)]
        done = subprocess.run(command, stdout=subprocess.PIPE, cwd=folder, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{python}: the run of {rounds} rounds failed")
        found = COUNTED.search(log.read_text()) if counted else None
        if counted and found is None:
            raise SystemExit(f"valgrind counted nothing in {counted}: {log.read_text()[-500:]}")
        return json.loads(done.stdout.splitlines()[-1]), int(found[1].replace(",", "")) if found else 0


def main() -> None:
    if sys.argv[1:2] == ["--play"]:
        parties, dimension, rounds = (int(each) for each in sys.argv[2:5])
        print(json.dumps(play(parties, dimension, rounds, sys.argv[5], Path(sys.argv[6]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="Python of a checkout's .venv")
    parser.add_argument("--after", type=Path, help="and of the other one")
    parser.add_argument("--parties", type=int, default=10)
    parser.add_argument("--dimension", type=int, default=123)
    parser.add_argument("--rounds", type=int, nargs=2, default=(20, 120), help="of the shorter and the longer run")
    parser.add_argument("--timed", type=int, default=300, help="rounds of a run for CPU seconds")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", type=Path, default=None)
    chosen = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed here: apt install valgrind")
    pythons = {"before": chosen.before.absolute(), **({"after": chosen.after.absolute()} if chosen.after else {})}
    few, many = chosen.rounds
    shape = (chosen.parties, chosen.dimension)
    counts: dict[str, dict[str, list[float]]] = {tree: {role: [] for role in ROLES} for tree in pythons}
    seconds: dict[str, dict[str, list[float]]] = {tree: {role: [] for role in ROLES} for tree in pythons}
    rounds: dict[str, list[float]] = {tree: [] for tree in pythons}
    for _ in range(chosen.repetitions):
        for tree, python in pythons.items():
            figures, _ = played(python, *shape, chosen.timed)
            rounds[tree].append(figures["median_seconds"])
            for role in ROLES:
                seconds[tree][role].append(figures["cpu_seconds"][role] / chosen.timed)
        for role, name in ROLES.items():
            for tree, python in pythons.items():
                short, long = (played(python, *shape, each, name)[1] for each in (few, many))
                counts[tree][role].append((long - short) / (many - few))
                print(f"{tree} {role}: {counts[tree][role][-1]:,.0f} instructions a round", file=sys.stderr, flush=True)
    result: dict[str, Any] = {
        "parties": chosen.parties, "dimension": chosen.dimension, "rounds": [few, many], "timed_rounds": chosen.timed,
        "instructions": counts, "cpu_seconds": seconds, "median_round_seconds": rounds,
    }  # fmt: skip
    if chosen.after:
        result["ratio"] = {
            role: statistics.median(counts["after"][role]) / statistics.median(counts["before"][role]) for role in ROLES
        }
    for tree in pythons:
        for role in ROLES:
            print(
                f"{tree} {role}: {statistics.median(counts[tree][role]):,.0f} instructions, "
                f"{statistics.median(seconds[tree][role]) * 1e3:.2f} ms CPU a round (all processes of the role)",
                file=sys.stderr,
            )
    print(json.dumps(result))
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
