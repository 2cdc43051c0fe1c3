"""Noise over a long line, beside loopback and beside one worker: the same two servers, taking turns.

What a line costs is a ratio of rates. Taken in turns, some seconds each, all meet the same machine.
"""

import json
import statistics
import subprocess
import sys
from typing import Any, Literal, Self

from parley.bench.noise_bench import TwoServers, aes_gb_s
from parley.mpc.errors import ConfigurationError, PeerError
from parley.mpc.parts import NoiseParts

ROUNDS = 3
TURN_SECONDS = 6.0
Workers = int | Literal["auto"]


class Relay:
    """A process through which a port of this machine is further away."""

    def __init__(self, port: int, round_trip: float) -> None:
        command = [sys.executable, "-P", "-m", "parley.bench.relay", str(port), str(round_trip / 2)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise PeerError(f"the relay ended early (exit code {self._process.wait()}); its message is above")
        self.port: int = json.loads(line)["port"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def parse_round_trip(text: str) -> float:
    """Seconds of such as `50ms`."""
    number = text.removesuffix("ms")
    if number == text or not number.isdecimal() or not 0 < int(number) <= 1000:
        raise ConfigurationError(f"a round trip of {text!r}: give 1ms to 1000ms")
    return int(number) / 1000


def parse_workers(text: str) -> Workers:
    if text == "auto":
        return "auto"
    if not text.isdecimal() or not 1 <= int(text) <= 16:
        raise ConfigurationError(f"{text!r} workers: give auto, or a number from 1 to 16")
    return int(text)


def lines(
    cover: str, precision: str, parts: NoiseParts, lanes: int, round_trip: float, workers: Workers, seconds: float
) -> dict[str, Any]:
    """Every way in turns, ROUNDS times; medians, and the medians of the rounds' ratios."""
    ways: dict[str, tuple[bool, Workers]] = {
        "loopback": (False, workers),
        "line": (True, workers),
        "line_one_worker": (True, 1),
        "loopback_one_worker": (False, 1),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    with (
        TwoServers(cover, precision, "grpc", parts=parts, lanes=lanes) as servers,
        Relay(servers.port, round_trip) as relay,
    ):
        aes = aes_gb_s()
        for _ in range(ROUNDS):
            for name, (far, count) in ways.items():
                port = relay.port if far else servers.port
                both = servers.run(task="fill", port=port, workers=count, seconds=seconds or TURN_SECONDS)
                rates[name].append(statistics.fmean(each["made"] / each["elapsed"] for each in both))
                found[name].append(both[0] | {"cpu_seconds": max(each["cpu_seconds"] for each in both)})
    return {
        "round_trip_ms": round_trip * 1e3,
        "security": parts.security,
        "audit": parts.audit,
        "precision": precision,
        "lanes": lanes,
        "rounds": ROUNDS,
        "aes_gb_s": aes,
        "ways": {
            name: {
                "workers": found[name][0]["workers"],
                "gaussians_per_second": statistics.median(rates[name]),
                "slowest": min(rates[name]),
                "fastest": max(rates[name]),
                "cpu_us_per_gaussian_per_server": statistics.median(
                    each["cpu_seconds"] / each["made"] * 1e6 for each in found[name]
                ),
            }
            for name in ways
        },
        "of_loopback": _ratio(rates["line"], [max(each) for each in zip(
            rates["loopback"], rates["loopback_one_worker"], strict=True)]),
        "over_one_worker": _ratio(rates["line"], rates["line_one_worker"]),
    }  # fmt: skip


def _ratio(rates: list[float], others: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(rates, others, strict=True))
