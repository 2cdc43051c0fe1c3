"""`parley bench train`: a whole federation as processes on this machine, and the same without protection beside it.

What it times: the coordinator's rounds, from publishing a question to having stepped the model. Secure with the noise
pool filled beforehand, secure from an empty pool (sustained), and plain: one server, clear sums, no noise, the same
transport, contributions and checkpoints. CPU seconds and peak memory are the kernel's figures for each process.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from parley.bench.plain_federation import MARK
from parley.bench.train_data import LAYOUT, study, write_party
from parley.cli.console import progress
from parley.coordinator.controls import Control
from parley.coordinator.errors import RunFailedError
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import RoundRecord, State
from parley.demo.local import ONE_THREAD, LocalFederation, NodeProcess, terminated_like_interrupted
from parley.federation.admission import BY_HAND, AdmissionRecord
from parley.federation.manifest import Manifest
from parley.federation.meaning import answered, charged, keep
from parley.federation.names import Role
from parley.node.errors import NodeError
from parley.node.node_file import AggregatorNode, read_node
from parley.privacy.filters import Policy as Filters
from parley.v1 import aggregator_pb2

TICKS = os.sysconf("SC_CLK_TCK")
FILL_SECONDS = 300.0
STATUS_SECONDS = 10.0
SETTLED_SECONDS = 1.5
"""A pool that makes nothing for so long is full."""
WARM_ROUNDS = 3
"""Left out of medians: connections and caches."""


@dataclass(frozen=True)
class Usage:
    """What the kernel says of a process."""

    cpu_seconds: float
    peak_memory_mb: float

    @classmethod
    def of(cls, process: int) -> "Usage":
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{process}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return cls((int(fields[11]) + int(fields[12])) / TICKS, int(peak.split()[1]) / 1024)


def bench_train(parties: int, dimension: int, rounds: int, plain: bool) -> dict[str, Any]:
    """Secure and, with `plain`, the baseline after it on the same records."""
    with terminated_like_interrupted(), tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
        home = Path(folder)
        data = {}
        for place in range(parties):
            path = home / f"party-{place + 1}.libsvm"
            write_party(path, place, dimension)
            data[f"party-{place + 1}"] = [path]
        progress(f"calibrating {rounds} rounds over {dimension:,} parameters")
        manifest = study("bench", parties, dimension, rounds)
        body: dict[str, Any] = {
            "parties": parties,
            "dimension": dimension,
            "rounds": rounds,
            "batch": manifest.mechanism.expected_batch(rounds - 1),
        }
        progress("secure, noise ready beforehand")
        body["secure"] = measure(home / "filled", manifest, data, capacity=2 * manifest.joint_samples + (1 << 18))
        progress("secure, from an empty pool")
        sustained = measure(home / "empty", manifest, data, capacity=1, fill=False)
        body["secure"]["sustained_seconds"] = sustained["mean_seconds"]
        if plain:
            progress("plain: one server, clear sums, no noise")
            body["plain"] = measure(home / "plain", manifest, data, secure=False)
            body["ratio"] = body["secure"]["median_seconds"] / body["plain"]["median_seconds"]
            body["sustained_ratio"] = body["secure"]["sustained_seconds"] / body["plain"]["mean_seconds"]
        return body


def measure(
    folder: Path,
    manifest: Manifest,
    data: dict[str, list[Path]],
    secure: bool = True,
    capacity: int | None = None,
    fill: bool = True,
) -> dict[str, Any]:
    """One run from start to end."""
    with LocalFederation(folder, manifest, data, capacity=capacity, layout=LAYOUT) as federation:
        for node in federation.nodes.values():
            admit_beforehand(node, manifest)
        began = time.monotonic()
        with started(federation, secure):
            ready = time.monotonic()
            if secure and fill:
                wait_filled(federation, manifest.joint_samples)
            coordinator = Coordinator(federation.coordinator.folder)
            submitted = time.monotonic()
            digest = coordinator.submit(manifest)
            first = 0.0
            before: dict[str, Usage] = {}
            row = None
            for found, records in coordinator.follow(digest):
                row = found
                if records and not first:
                    first = time.monotonic()
                    before = usage(federation)
            if row is None or row.state is not State.finished:
                raise RunFailedError(f"the run ended as {row and row.state}: {row and row.outcome}")
            after = usage(federation)
            records = coordinator.store.history(digest)
            received = sum(each.share_bytes for each in statuses(federation))
    return {
        **figures(records, before, after, federation),
        "bytes_up_per_party": received / len(records) / len(federation.parties),
        "start_to_first_round_seconds": (ready - began) + (first - submitted),
    }


def admit_beforehand(process: NodeProcess, manifest: Manifest) -> None:
    """As a person's approval before the day of the run, verification included: what is timed is the run."""
    node = read_node(process.folder)
    node.state.mkdir(mode=0o700, exist_ok=True)
    record = AdmissionRecord(node.admissions)
    record.put(manifest, BY_HAND, "the benchmark")
    record.close()
    if node.role is not Role.aggregator:  # an aggregator verifies nothing that was approved
        asked = charged(process.name if node.role is Role.party else "", Filters())
        keep(node.verified, manifest, asked, _answered(manifest.canonical, *asked))


@lru_cache(maxsize=1024)
def _answered(canonical: bytes, *arguments: str) -> dict[str, Any]:
    return answered(Manifest.from_canonical(canonical), list(arguments))


@contextmanager
def started(federation: LocalFederation, secure: bool) -> Iterator[None]:
    """All processes, of the product or of the baseline."""
    if secure:
        federation.start()
        yield
        return
    nodes = [federation.aggregators[0], federation.coordinator, *federation.parties]
    for node in nodes:
        (node.folder / MARK).touch()
        with node.log.open("ab") as log:
            node.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "parley.bench.plain_federation", node.role.value, str(node.folder)],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **ONE_THREAD},
                start_new_session=True,
            )
    for node in nodes:
        node.wait_ready()
    yield


def wait_filled(federation: LocalFederation, samples: int) -> None:
    """Until both pools hold the whole run's noise and make no more: what is made meanwhile would be timed too."""
    until, produced = time.monotonic() + FILL_SECONDS, [-1, -1]
    while True:
        found = statuses(federation)
        if all(each.pool_available >= samples for each in found) and produced == [each.pool_produced for each in found]:
            return
        produced = [each.pool_produced for each in found]
        if time.monotonic() > until:
            held = min(each.pool_available for each in found)
            raise NodeError(f"a pool holds {held:,} of {samples:,} samples after {FILL_SECONDS:g} s")
        time.sleep(SETTLED_SECONDS)


def statuses(federation: LocalFederation) -> list[aggregator_pb2.StatusResponse]:
    """Of the aggregators that run: both, or the baseline's one."""

    async def ask() -> list[aggregator_pb2.StatusResponse]:
        lead = read_node(federation.coordinator.folder)
        found = []
        for process, peer in zip(federation.aggregators, federation.manifest.identities(Role.aggregator), strict=True):
            node = read_node(process.folder)
            if process.alive and isinstance(node, AggregatorNode):
                control = Control(lead.identity, peer, str(node.control))
                found.append(await control.call("Status", aggregator_pb2.StatusRequest(), STATUS_SECONDS))
                await control.close()
        return found

    return asyncio.run(ask())


def usage(federation: LocalFederation) -> dict[str, Usage]:
    return {
        name: Usage.of(node.process.pid)
        for name, node in federation.nodes.items()
        if node.process is not None and node.alive
    }


def figures(
    records: list[RoundRecord], before: dict[str, Usage], after: dict[str, Usage], federation: LocalFederation
) -> dict[str, Any]:
    """Medians over the rounds after the first few; CPU and memory per role, per process of it."""
    kept = records[WARM_ROUNDS:] or records
    gaps = [later.at - earlier.at for earlier, later in zip(records[WARM_ROUNDS - 1 :], kept, strict=False)]

    def median(name: str) -> float:
        return float(statistics.median(getattr(record, name) for record in kept))

    roles: dict[str, list[str]] = {
        "coordinator": [federation.coordinator.name],
        "aggregator": [node.name for node in federation.aggregators if node.name in after],
        "party": [node.name for node in federation.parties],
    }
    return {
        "median_seconds": statistics.median(gaps) if gaps else median("seconds"),
        "mean_seconds": statistics.fmean(gaps) if gaps else median("seconds"),
        "rounds_per_second": 1 / statistics.fmean(gaps) if gaps else None,
        "phases": {name: median(f"{name}_seconds") for name in ("waited", "agreed", "noised", "stepped")},
        "cpu_seconds": {
            role: sum(after[name].cpu_seconds - before[name].cpu_seconds for name in names if name in before)
            for role, names in roles.items()
        },
        "bytes_down_per_party": median("bytes_down") / len(federation.parties),
        "peak_memory_mb": {
            role: max((after[name].peak_memory_mb for name in names if name in after), default=0.0)
            for role, names in roles.items()
        },
    }
