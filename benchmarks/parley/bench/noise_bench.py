"""Benchmarks of the noise protocol: two processes on loopback, mutual TLS, nothing shared but certificates'
authority.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from parley.aggregator.noise import batch_lanes
from parley.bench.noise_server import Settings, settings_line
from parley.bench.noise_turns import NAMES
from parley.bench.noise_ways import compared
from parley.mpc.errors import PeerError
from parley.mpc.parts import JOINT, NoiseParts
from parley.mpc.randomness import Csprng
from parley.mpc.ring import Lattice, share
from parley.mpc.sampler import LANES
from parley.mpc.tables import check_precision, load
from parley.node.authority import ThrowAwayAuthority


class TwoServers:
    """Server 0 and server 1, each a fresh process; ended when the `with` block is left, however it is left."""

    def __init__(
        self, cover: str, precision: str, channel: str, k: int = 4, parts: NoiseParts = JOINT, lanes: int = LANES
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="parley-bench-")
        self.folder = Path(self._folder.name)
        authority = ThrowAwayAuthority()
        for name in NAMES:
            authority.issue(name).save(self.folder / name)
        self.started = time.monotonic()
        self._processes = [self._start() for _ in NAMES]
        for role, process in enumerate(self._processes):
            settings = Settings(
                role=role,
                cover=cover,
                precision=precision,
                channel=channel,
                k=k,
                folder=str(self.folder),
                security=parts.security,
                own=parts.own,
                audit=parts.audit,
                lanes=lanes,
            )
            self._tell(process, settings_line(settings))
        port = self._answer(self._processes[1])
        self.port: int = port["port"]
        """Of server 1."""
        self._tell(self._processes[0], json.dumps(port))

    def _start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "parley.bench.noise_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _tell(self, process: "subprocess.Popen[str]", line: str) -> None:
        if process.stdin is None:
            raise PeerError("a server has no input")
        process.stdin.write(line + "\n")
        process.stdin.flush()

    def _answer(self, process: "subprocess.Popen[str]") -> dict[str, Any]:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise PeerError(f"a server process ended early (exit code {process.wait()}); its message is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def run(self, **task: Any) -> list[dict[str, Any]]:
        """The same task on both; both answers."""
        for process in self._processes:
            self._tell(process, json.dumps(task))
        return [self._answer(process) for process in self._processes]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._folder.cleanup()


def aes_gb_s(seconds: float = 0.3) -> float:
    """This core's AES-128-ECB rate by OpenSSL, in place on 1 MiB: the yardstick between machines."""
    size = 1 << 20
    data, out = bytes(size), bytearray(size + 16)
    encryptor = Cipher(algorithms.AES(bytes(16)), modes.ECB()).encryptor()
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        encryptor.update_into(data, out)
        done += size
    return done / (time.perf_counter() - started) / 1e9


def noise(
    dimension: int, cover: str, precision: str, channel: str, seconds: float = 0.0, dump: Path | None = None,
    baseline: bool = True, parts: NoiseParts = JOINT, lanes: int = LANES,
) -> dict[str, Any]:  # fmt: skip
    """The fields of `parley bench noise`. In the same run, the baseline: of semi-honest noise the textbook's rectangle
    over IKNP transfers, of any other the semi-honest one, taking turns with it.
    """
    with TwoServers(cover, precision, channel, parts=parts, lanes=lanes) as servers:
        cold = servers.run(task="measure", dimension=dimension, seconds=0, repeat=1, dump=False)
        cold_seconds = max(answer["finished"] for answer in cold) - servers.started
        aes = aes_gb_s()
        both = servers.run(
            task="measure", dimension=dimension, seconds=seconds, repeat=3 if seconds else 7, dump=dump is not None
        )
        if dump is not None:
            shares = [np.load(servers.folder / f"share-{role}.npy") for role in (0, 1)]
            scale = load(*check_precision(cover, precision)).format.scale_bits
            np.savez(dump, share_a=shares[0], share_b=shares[1], scale=scale)
        compare = baseline and parts.security != "semi-honest"
        turns = compared(servers.run, parts, lanes, dimension, seconds) if compare else None
    a = both[0]
    result: dict[str, Any] = {
        "dimension": dimension,
        "precision": precision,
        "cover": cover,
        "channel": channel,
        "security": parts.security,
        "own": parts.own,
        "audit": parts.audit,
        "lanes": lanes,
        "seconds": statistics.median(a["durations"]),
        "gaussians_per_second": a["made"] / a["elapsed"],
        "bytes_per_gaussian_per_server": a["sent"] / a["made"],
        "exchanges": round(a["exchanges"], 1),
        "acceptance": a["made"] / a["lanes"] if a["lanes"] else None,  # nothing was sampled together
        "base_ot_seconds": a["base_ot_seconds"],
        "cold_seconds": cold_seconds,
        "aes_gb_s": aes,
        "cpu_us_per_gaussian_per_server": max(answer["cpu_seconds"] for answer in both) / a["made"] * 1e6,
        "peak_memory_mb": max(answer["peak_memory_mb"] for answer in both),
        "elapsed_seconds": a["elapsed"],
    }
    if turns is not None:
        result["turns"] = turns
    elif baseline:
        with TwoServers("rectangle", precision, channel, k=1) as servers:
            servers.run(task="measure", dimension=dimension, seconds=0, repeat=1, dump=False)
            other = servers.run(task="measure", dimension=dimension, seconds=min(seconds, 10), repeat=3, dump=False)[0]
        result["baseline"] = {
            "what": "textbook rectangle over IKNP transfers (k = 1)",
            "gaussians_per_second": other["made"] / other["elapsed"],
            "bytes_per_gaussian_per_server": other["sent"] / other["made"],
        }
    return result


def aggregate(parties: int, dimension: int, channel: str, parts: NoiseParts) -> dict[str, Any]:
    """The paper's table 4 in one call: everything from the start of two processes to the opened, noised sum."""
    lattice = Lattice(1.0, 16, load("strips", "standard").format.scale_bits, parts)
    lanes = batch_lanes(dimension) if parts.security == "covert" else LANES  # as their pools make them
    rng = Csprng.from_system()
    with TwoServers("strips", "standard", channel, parts=parts, lanes=lanes) as servers:
        values = np.arange(parties * dimension, dtype=np.int64).reshape(parties, dimension) << 16
        seeds = [rng.bytes(32) for _ in range(parties)]
        np.save(
            servers.folder / "contributions-0.npy", np.stack([share(v, s) for v, s in zip(values, seeds, strict=True)])
        )
        np.save(servers.folder / "contributions-1.npy", np.stack([np.frombuffer(s, np.uint8) for s in seeds]))
        both = servers.run(task="aggregate", dimension=dimension, parties=parties)
        total_seconds = max(answer["finished"] for answer in both) - servers.started
        opened = lattice.open(*(np.load(servers.folder / f"opened-{role}.npy").astype(np.uint64) for role in (0, 1)))
    noise_seen = lattice.decode(opened - values.sum(axis=0))
    if np.abs(noise_seen).max() > 16:
        raise PeerError("the opened sum is not the contributions' sum plus noise")
    uploaded = parties * dimension * 8 + parties * 32
    return {
        "parties": parties,
        "dimension": dimension,
        "security": parts.security,
        "own": parts.own,
        "online_seconds": max(answer["online"] for answer in both),
        "total_seconds": total_seconds,
        "bytes_per_server": both[0]["sent"] + uploaded,
        "noise_bytes_per_server": both[0]["noise_sent"],
        "noise_standard_deviation": float(noise_seen.std()),
    }
