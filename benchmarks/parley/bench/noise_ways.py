"""What one way of making noise costs beside another, measured batch by batch in turns (parley.bench.noise_turns)."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from parley.mpc.errors import PeerError
from parley.mpc.parts import NoiseParts, parts_of, usual_own
from parley.mpc.sampler import LANES

LEAST_ROUNDS = 12
WARM_ROUNDS = 2
"""Not counted: they open the sessions and touch memory for the first time."""
Run = Callable[..., list[dict[str, Any]]]


@dataclass
class Way:
    """One way, and what its batches cost: a list of both servers' answers."""

    parts: NoiseParts
    lanes: int
    """Of a batch; where nothing is joint, the numbers that are drawn at a time."""
    batches: list[list[dict[str, Any]]] = field(default_factory=list)

    @property
    def audits(self) -> int:
        return sum(answer["audits"] for both in self.batches for answer in both)

    @property
    def replay(self) -> float:
        """Seconds of processor that an audit takes its server."""
        plain, audited = (
            [each["cpu_seconds"] for both in self.batches for each in both if bool(each["audits"]) is kind]
            for kind in (False, True)
        )
        return statistics.fmean(audited) - statistics.fmean(plain) if audited and plain else 0.0

    def cpu_of_batches(self) -> list[float]:
        """Seconds of each batch, mean of both servers, with the audits that are due in the mean for those it had."""
        due, replay = float(self.parts.audit_rate), self.replay
        return [
            statistics.fmean(each["cpu_seconds"] + (due - each["audits"]) * replay for each in both)
            for both in self.batches
        ]

    @property
    def made(self) -> float:
        """Gaussians that a batch is worth: one that either server audits is thrown away."""
        kept = [both[0]["made"] for both in self.batches if both[0]["made"]]
        if not kept:
            raise PeerError("every batch was audited: measure for longer, or audit less")
        return statistics.fmean(kept) * float(1 - self.parts.audit_rate) ** 2

    @property
    def sent(self) -> float:
        """Bytes, by one server in one batch."""
        return statistics.fmean(answer["sent"] for both in self.batches for answer in both)

    def figures(self) -> dict[str, Any]:
        exchanges = statistics.fmean(both[0]["exchanges"] for both in self.batches)
        came = sum(both[0]["made"] for both in self.batches)
        spent = sum(answer["cpu_seconds"] for both in self.batches for answer in both) / 2
        return {
            "security": self.parts.security,
            "audit": self.parts.audit,
            "lanes": self.lanes,
            "batches": len(self.batches),
            "audits": self.audits,
            "gaussians_per_batch": self.made,
            "cpu_us_per_gaussian_per_server": statistics.fmean(self.cpu_of_batches()) / self.made * 1e6,
            "cpu_us_as_it_came": spent / came * 1e6,
            "cpu_ms_per_replay": self.replay * 1e3,
            "bytes_per_gaussian_per_server": self.sent / self.made,
            "exchanges_per_batch": exchanges,
            "exchanges_per_gaussian": exchanges / self.made,
        }


def over(way: Way, other: Way) -> dict[str, float]:
    """How many times as much, Gaussian for Gaussian; `cpu_error` is the standard error of the first ratio."""
    mine, theirs = way.cpu_of_batches(), other.cpu_of_batches()
    ratio = statistics.fmean(mine) / statistics.fmean(theirs)
    rest = [a - ratio * b for a, b in zip(mine, theirs, strict=True)]
    error = statistics.stdev(rest) / math.sqrt(len(rest)) / statistics.fmean(theirs)
    worth = other.made / way.made
    return {"cpu": ratio * worth, "cpu_error": error * worth, "bytes": way.sent / other.sent * worth}


def compared(run: Run, parts: NoiseParts, lanes: int, dimension: int, seconds: float) -> dict[str, Any]:
    """Noise under audit beside semi-honest in batches of the same size and of its usual size, and `malicious`, a model
    at a time.
    """
    semi_honest = NoiseParts("semi-honest", parts.own if parts.joint else usual_own("semi-honest"))
    covert = parts if parts.security == "covert" else parts_of("covert", semi_honest.own)
    malicious = parts_of("malicious", usual_own("malicious"))
    ways = [Way(semi_honest, LANES), Way(semi_honest, lanes), Way(covert, lanes), Way(malicious, dimension)]
    started, rounds = time.monotonic(), 0
    while rounds < WARM_ROUNDS + LEAST_ROUNDS or time.monotonic() - started < seconds or not ways[2].audits:
        for way in ways:
            told = [way.parts.security, way.parts.own, way.parts.audit]
            both = run(task="batch", parts=told, lanes=way.lanes)
            if rounds >= WARM_ROUNDS:
                way.batches.append(both)
        rounds += 1
    usual, same, audited, own = ways
    return {
        "rounds": rounds - WARM_ROUNDS,
        "ways": [way.figures() for way in ways],
        "covert_over_semi_honest": over(audited, same),
        "covert_over_usual_batches": over(audited, usual),
        "malicious_over_semi_honest": over(own, same),
    }
