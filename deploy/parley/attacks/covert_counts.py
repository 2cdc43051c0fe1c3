"""How often lies under audit are caught, and whether anybody honest is ever accused: counts over two processes.

    python -m parley.attacks.covert_counts --out FILE [--batches 400] [--sessions 40] [--honest 2000] [--lanes 256]

The exit code is 1 where anything is other than claimed. Every interval of a count is exact and is left by chance once
in 10^9 times (`parley.attacks.covert_trial.FALSE_ALARM`).
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from parley.attacks.covert_forgery import all_of, convicting
from parley.attacks.covert_lies import BETS, CAUGHT, REFUSED
from parley.attacks.covert_pool import POSITION
from parley.attacks.covert_server import DEADLINE, Task
from parley.attacks.covert_trial import FALSE_ALARM, Tally, TwoServers, Variants, interval, tried
from parley.mpc.evidence import Evidence

EIGHTH = Fraction(1, 8)
BY_EITHER = {"squeeze", "leak"}
"""Of which each server makes as many batches as of the others both together."""
ACCUSED = ("accuses", "one-bit", "late-seed", "false-bits")
"""Lies of whose liar's accusations forgeries are made."""
SET_UP, REFILL, AROUND = 3, 3, 4
"""Frames of a session before its first batch; of the first batch before its own; of each batch beside the gates'."""
MUTE_SECONDS = 20.0
"""Nobody but the mute may need as long, on a machine that does much else."""
DEVIATIONS = 6.2
"""Of a mean or variance of honest noise: chance leaves them once in 10^9 times."""
KERNELS: tuple[Variants, ...] = (
    (None, "baseline"), (None, None), ("baseline", None), ("baseline", "baseline"),
)  # fmt: skip


@dataclass(frozen=True)
class Size:
    """Of a count."""

    batches: int = 400
    """Of each lie that audits catch."""
    sessions: int = 40
    """Of each lie that ends a session, by both servers together."""
    honest: int = 2000
    """Batches."""
    accused: int = 2
    """Accusations of each kind that forgeries are made of, by either server."""
    silences: int = 1
    """At every so manyth frame."""
    bytes: int = 1
    """Of evidence, every so manyth is changed."""
    kernels: int = 4
    """Pairs of them."""
    lanes: int = 256


Say = Callable[[str], object]


def caught(servers: TwoServers, size: Size, names: Iterator[str] | list[str]) -> Iterator[Tally]:
    """Lies by which a batch departs from its seed."""
    for number, name in enumerate(names):
        by = _by(CAUGHT[name].by, number, size.batches)
        each = size.batches if name in BY_EITHER else -(-size.batches // len(by))
        for liar in by:
            yield tried(servers, name, liar, each, size.lanes)


def _by(liars: tuple[int, ...], number: int, count: int) -> tuple[int, ...]:
    """Both servers lie, or where one trial is asked for, they take turns."""
    return liars if count > 1 else (liars[number % len(liars)],)


def refused(servers: TwoServers, size: Size, names: Iterator[str] | list[str]) -> Iterator[Tally]:
    """Lies that the honest server cannot miss, and bets."""
    for number, name in enumerate(names):
        for liar in _by((0, 1), number, size.sessions):
            yield tried(servers, name, liar, 1 << 30, size.lanes, most_sessions=-(-size.sessions // 2), most_batches=50)


def accused(servers: TwoServers, size: Size) -> dict[str, Any]:
    """Accusations of an honest server and all that can be forged of them."""
    files, convicting_ones = 0, []
    for lie in ACCUSED:
        for liar in (0, 1):
            found: list[Evidence] = []
            while len(found) < size.accused:
                answers = servers.session(Task(12, size.lanes, 8, lie, liar))
                found += [Evidence.decode(servers.evidence(liar, name)) for name in answers[liar]["evidence"]]
            for evidence, other in pairwise(found):
                count, convicted = convicting(all_of(evidence, other, size.bytes), servers.keys[1 - liar])
                files += count
                convicting_ones += convicted
    return {"files": files, "convicting": convicting_ones}


def silent(servers: TwoServers, size: Size) -> dict[str, Any]:
    """A server that goes away, or falls silent, in place of any frame of two batches: what is left to the other one."""
    gates = len(_a_record(servers, size).tags[0])
    first = SET_UP + REFILL + AROUND + gates
    last = first + AROUND + gates
    sessions, wrong = 0, []
    for liar in (0, 1):
        for frame in range(0, last, size.silences):
            mute = frame % 8 == 1
            lie, errors = ("mute", {"PeerTimeoutError"}) if mute else ("silence", {"PeerClosedError"})
            task = Task(3, size.lanes, 8, f"{lie}:{frame}", liar, MUTE_SECONDS if mute else DEADLINE)
            honest = servers.session(task)[1 - liar]
            sessions += 1
            if honest["error"] not in errors or honest["evidence"] or len(honest["kept"]) != int(frame >= first):
                wrong.append(f"{task.lie} by {'AB'[liar]}: {honest}")
    return {"sessions": sessions, "frames": last, "wrong": wrong}


def positions(servers: TwoServers, size: Size) -> dict[str, Any]:
    """A sum out of both pools; and one where a server says a place that it is not at."""
    wrong, sessions = [], 0
    for liar in (0, 1):
        for lie, error, kept in (("", "", 1), (POSITION, "PositionError", 0)):
            servers.start()
            honest = servers.session(Task(1, size.lanes, 8, lie, liar, opening=True))[1 - liar]
            sessions += 1
            if (honest["error"], len(honest["kept"]), honest["evidence"]) != (error, kept, []):
                wrong.append(f"{lie} by {'AB'[liar]}: {honest}")
    servers.start()  # a pool may have dialled once more
    return {"sessions": sessions, "wrong": wrong}


def _a_record(servers: TwoServers, size: Size) -> Any:
    while True:
        answer = servers.session(Task(4, size.lanes, 8, "accuses", 1))[1]
        for name in answer["evidence"]:
            return Evidence.decode(servers.evidence(1, name)).record


def honest(size: Size, say: Say) -> dict[str, Any]:
    """Nobody lies: sessions over old and new connections, processes started again, one killed in the middle of an
    audit; on both kernels; at 1/8, and where everything is audited.
    """
    found: dict[str, Any] = {
        "batches": 0, "sessions": 0, "restarts": 0, "killed": 0, "reconnects": 0, "audits": 0, "batches_at_1": 0,
        "samples": 0, "wrong": [],
    }  # fmt: skip
    each, sums = -(-size.honest // size.kernels), []
    at_eighth = [0, 0]  # batches, audits by either
    for variants in KERNELS[: size.kernels]:
        with TwoServers(variants) as servers:
            for audits, batches in ((1, each // 8), (8, each // 2), (8, each - each // 8 - each // 2)):
                task = Task(batches, size.lanes, audits, reconnect=True, save=audits > 1)
                answers = servers.session(task)
                found["sessions"] += 1
                found["reconnects"] += 1
                _honest(found, answers, "")
                if audits > 1:
                    at_eighth[0] += 2 * batches
                    at_eighth[1] += sum(answer["made"] for answer in answers)
                    sums.append(servers.sums())
                else:
                    found["batches_at_1"] += batches
            for role in (0, 1):
                servers.begin(Task(64, 1 << 13, 1))
                servers.wait_for_signature(role)  # it has just begun to replay
                _honest(found, [servers.kill(role)], "PeerClosedError")
                found["killed"] += 1
                servers.start()
                found["restarts"] += 1
        say(f"honest: {found['batches']:,} batches")
    x = np.concatenate(sums)
    found["samples"] = len(x)
    found["mean"], found["deviation"] = float(x.mean()), float(x.std())
    if abs(x.mean()) * len(x) ** 0.5 > DEVIATIONS or abs(x.std() - 1) * (2 * len(x)) ** 0.5 > DEVIATIONS:
        found["wrong"].append("what honest servers made is not standard normal")
    low, high = interval(at_eighth[0], EIGHTH)
    if not low <= at_eighth[1] <= high:
        found["wrong"].append(f"{at_eighth[1]} of {at_eighth[0]} audited, where {low} to {high} are due")
    found["audited_at_an_eighth"], found["coins_at_an_eighth"] = at_eighth[1], at_eighth[0]
    return found


def _honest(found: dict[str, Any], answers: list[dict[str, Any]], error: str) -> None:
    found["batches"] += max(answer["signed"] for answer in answers)
    for answer in answers:
        found["audits"] += answer["made"]
        if answer["evidence"] or answer["error"] != error or answer["passed"] != answer["made"]:
            found["wrong"].append(f"an honest server: {answer}")


def counted(size: Size, say: Say = lambda line: None) -> dict[str, Any]:
    """All of it."""
    found: dict[str, Any] = {"audit_rate": str(EIGHTH), "false_alarm": FALSE_ALARM, **asdict(size)}
    wrong: list[str] = []

    def noted(tallies: Iterator[Tally]) -> list[dict[str, Any]]:
        told = []
        for tally in tallies:
            told.append(tally.told())
            wrong.extend(f"{tally.lie} by {'AB'[tally.liar]}: {each}" for each in tally.wrong(EIGHTH))
            say(json.dumps(told[-1]))
        return told

    with TwoServers() as servers:
        found["silent"] = silent(servers, size)
        say(json.dumps(found["silent"]))
        found["positions"] = positions(servers, size)
        found["forged"] = accused(servers, size)
        say(json.dumps(found["forged"]))
        found["refused"] = noted(refused(servers, size, [*REFUSED, *BETS]))
        found["caught"] = noted(caught(servers, size, list(CAUGHT)))
        found["accuses"] = noted(tried(servers, "accuses", liar, size.batches, size.lanes) for liar in (0, 1))
    found["honest"] = honest(size, say)
    found["in_all"] = in_all(found)
    low, high = interval(found["in_all"]["batches"], EIGHTH)
    if not low <= found["in_all"]["audited"] <= high:
        wrong.append(f"in all {found['in_all']['audited']} audited, where {low} to {high} are due")
    wrong += [*found["forged"]["convicting"]]
    wrong += [each for part in ("honest", "silent", "positions") for each in found[part]["wrong"]]
    found["wrong"] = wrong
    return found


def in_all(found: dict[str, Any]) -> dict[str, Any]:
    """Sums over all lies that audits catch, and all accusations of an honest server."""
    rows = found["caught"]
    every = [*rows, *found["refused"], *found["accuses"]]
    total: dict[str, Any] = {name: sum(row[name] for row in rows) for name in ("batches", "audited", "caught")}
    total["rate"] = round(total["audited"] / total["batches"], 4)
    total["accusations"] = sum(row["accusations"] for row in every) + found["forged"]["files"]
    total["convicted"] = sum(row["convicted"] for row in every) + len(found["forged"]["convicting"])
    return total


def tables(found: dict[str, Any]) -> str:
    """As docs/experiments/covert-attacks.md shows them."""
    lines = [
        "| lie | by | batches | audited | caught | kept by the honest server | how else sessions ended |",
        "| --- " * 7 + "|",
    ]
    for row in found["caught"]:
        ended = {name: count for name, count in row["endings"].items() if name not in ("", "CaughtError")}
        others = ", ".join(f"{name} {count}" for name, count in sorted(ended.items())) or "–"
        cells = (row["lie"], row["by"], row["batches"], row["audited"], row["caught"], row["kept"], others)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| lie | by | sessions | batches that went through | ended by |", "| --- " * 5 + "|"]
    for row in found["refused"]:
        ways = ", ".join(f"{name or 'nothing'} {count}" for name, count in sorted(row["endings"].items()))
        lines.append("| " + " | ".join(map(str, (row["lie"], row["by"], row["sessions"], row["kept"], ways))) + " |")
    return "\n".join(lines)


def main() -> None:
    default = Size()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    for name in ("batches", "sessions", "honest", "lanes"):
        parser.add_argument(f"--{name}", type=int, default=getattr(default, name))
    given = parser.parse_args()
    size = Size(batches=given.batches, sessions=given.sessions, honest=given.honest, lanes=given.lanes)
    began = time.monotonic()
    found = counted(size, lambda line: print(line, file=sys.stderr, flush=True))
    found["seconds"], found["processors"] = round(time.monotonic() - began), os.cpu_count()
    found["command"] = f"python -m parley.attacks.covert_counts {' '.join(sys.argv[1:])}"
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    print(tables(found))
    print(json.dumps({**found["in_all"], "wrong": found["wrong"]}))
    raise SystemExit(bool(found["wrong"]))


if __name__ == "__main__":
    main()
